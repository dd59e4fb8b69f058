// Package bench lists the benchmarks that regenerate the figures and tables of the papers, side by
// side with their baselines. `godwit bench` lists and runs them.
//
// Each paper is a package over the common [rig]. No paper's package uses another's:
//
//   - polybase: rows that come home
//   - geolm: leaders near the requests
//   - relay: consistency tiers, on locks and on timestamp ordering (crdbrelay)
//   - gaussdb: clock modes, reads from replicas, compression
//   - geococo: planned all-to-all rounds
//   - peers: the same work on MariaDB, Galera and etcd, and on Godwit with TLS and encrypted stores
//   - cost: where the server's CPU time of a statement goes
//   - faults: what faults cost, beside Galera and etcd
//   - tpch: the queries of TPC-H beside MariaDB
//
// Package rig lists the duties of a benchmark.
package bench
