// Package bench lists the benchmarks that regenerate the figures and tables of the papers, side by
// side with their baselines. `godwit bench` lists and runs them.
//
// Each paper is a package of its own over the common [rig], and uses no other paper's:
//
//   - polybase: rows that come home
//   - geolm: leaders near the requests
//   - relay: consistency tiers, on locks and on timestamp ordering (crdbrelay)
//   - gaussdb: clock modes, reads from replicas, compression
//   - geococo: planned all-to-all rounds
//   - peers: the same work on MariaDB, Galera and etcd
//
// What a benchmark owes its caller is said in package rig.
package bench
