// Package gaussdb regenerates the figures of GaussDB-Global: commit timestamps of local clocks, and
// reads from replicas at a consistency point, beside a central timestamp oracle and reads at the
// owners.
//
// Two clusters, one in each clock mode, take turns in real time; the network of both changes as
// they run. Benchmark gaussdb-switch changes the mode under TPC-C over SQL, and compression replays
// recorded traffic between regions through each compression.
package gaussdb
