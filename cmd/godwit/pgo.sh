#!/bin/sh
# Makes default.pgo, the profile by which the compiler optimises cmd/godwit: a throw-away node under a mix of
# sysbench's reads and writes. Run by `make pgo`; needs sysbench, the mysql client, curl and two free ports.
set -eu
bin=${1:-bin/godwit}
listen=127.0.0.1:${PGO_PORT:-7590}
port=${PGO_SQL_PORT:-7591}
secs=${PGO_SECONDS:-10}
dir=$(mktemp -d)
"$bin" start --insecure --pprof --region one --store "$dir/store" --listen "$listen" --sql-listen "127.0.0.1:$port" --log-level error &
node=$!
trap 'kill $node; wait $node || true; rm -rf "$dir"' EXIT
sleep 2
"$bin" init --insecure --addr "$listen" --expect 1 --no-root-password
n=0
until mysql -h127.0.0.1 -P"$port" -uroot -e 'create database sbtest' 2>/dev/null; do
	n=$((n + 1))
	[ $n -lt 50 ]
	sleep 0.2
done
bench() {
	test=$1
	shift
	sysbench "$test" --db-driver=mysql --mysql-host=127.0.0.1 --mysql-port="$port" --mysql-user=root --mysql-db=sbtest \
		--tables=1 --table-size=100000 --threads=8 --mysql-ignore-errors=all "$@" >"$dir/$test.out"
}
bench oltp_read_write prepare
for test in oltp_point_select oltp_read_write oltp_update_index oltp_update_non_index oltp_insert; do
	bench "$test" --time=$((secs + 2)) run &
	load=$!
	sleep 1
	curl -sSf -o "$dir/$test.pprof" "http://$listen/debug/pprof/profile?seconds=$secs"
	wait $load
done
# Rare functions only make the file large.
go tool pprof -proto -nodefraction=0.0005 -edgefraction=0 -output "$dir/mixed.pgo" "$dir"/*.pprof 2>/dev/null
go run cmd/godwit/pgostrip.go <"$dir/mixed.pgo" >cmd/godwit/default.pgo
ls -l cmd/godwit/default.pgo
