// Package peers runs the same work on unmodified other programs: sysbench on one node beside
// MariaDB (benchmark mariadb), and three sites on an emulated WAN beside Galera and etcd (benchmark
// peers). Benchmark security has the same sites with TLS and encrypted stores.
//
// Servers are processes on this machine. The WAN is made of network namespaces, so benchmarks peers
// and security need root. Each benchmark names the programs that are missing.
package peers
