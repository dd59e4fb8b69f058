#!/bin/sh
# Measures what TLS and encryption at rest cost: four clusters of NODES nodes each, side by side on
# this machine, and sysbench at each of them in turn.
#
#	plain      nodes with --insecure, clients without TLS
#	tls        nodes with TLS, clients with it
#	encrypted  as plain, with an encrypted store
#	both
#
# Prints a line for each run, then the mean of each test and cluster, and its ratio to plain.
# It needs sysbench and openssl. Environment: NODES (3), ROUNDS (5), SECS (10), THREADS (4),
# ROWS (10000), PORT (17400).
set -eu
godwit=$(realpath "${1:?path of the godwit binary}")
nodes=${NODES:-3} rounds=${ROUNDS:-5} secs=${SECS:-10} threads=${THREADS:-4} rows=${ROWS:-10000} port=${PORT:-17400}
dir=$(mktemp -d)
pids=
end() {
	for p in $pids; do kill -9 "$p" 2>/dev/null || true; done
	rm -rf "$dir"
}
trap end EXIT
umask 077
export GODWIT_CERTS="$dir/certs"
openssl rand -hex 32 >"$dir/key"
kinds="plain tls encrypted both"

listen=$port
for k in $kinds; do
	case $k in plain | encrypted) insecure=--insecure ;; *) insecure= ;; esac
	case $k in encrypted | both) key="--encryption-key $dir/key" ;; *) key= ;; esac
	first=127.0.0.1:$listen
	eval "sql_$k=$((listen + 1))"
	for n in $(seq "$nodes"); do
		# shellcheck disable=SC2086 # empty means no argument
		"$godwit" start $insecure $key --region eu --store "$dir/$k$n" --listen "127.0.0.1:$listen" \
			--sql-listen "127.0.0.1:$((listen + 1))" --join "$first" --log-level error >>"$dir/$k.log" 2>&1 &
		pids="$pids $!"
		listen=$((listen + 2))
		sleep 1
	done
	# shellcheck disable=SC2086
	until "$godwit" init $insecure --addr "$first" --expect "$nodes" --no-root-password >>"$dir/$k.log" 2>&1; do sleep 1; done
done

bench() { # kind test action seconds
	eval "p=\$sql_$1"
	ssl=
	case $1 in tls | both) ssl=--mysql-ssl=on ;; esac
	# shellcheck disable=SC2086
	sysbench "$2" --mysql-host=127.0.0.1 --mysql-port="$p" --mysql-user=root --mysql-db=sbtest --tables=1 \
		--table-size="$rows" --threads="$threads" --time="$4" --db-ps-mode=disable $ssl "$3"
}
# sysbench takes these names, in its folder.
cp "$GODWIT_CERTS/ca.crt" "$dir/cacert.pem"
cp "$GODWIT_CERTS/client.crt" "$dir/client-cert.pem"
cp "$GODWIT_CERTS/client.key" "$dir/client-key.pem"
cd "$dir"
for k in $kinds; do
	eval "p=\$sql_$k"
	until mysql -h 127.0.0.1 -P "$p" -u root -e 'CREATE DATABASE IF NOT EXISTS sbtest' 2>/dev/null; do sleep 1; done
	bench "$k" oltp_read_write prepare 0 >/dev/null
done
for t in oltp_point_select oltp_read_only oltp_write_only; do
	for r in $(seq "$rounds"); do
		for k in $kinds; do
			q=$(bench "$k" "$t" run "$secs" | sed -n 's/.*queries: .*(\([0-9.]*\) per sec.*/\1/p')
			echo "$t $r $k $q" | tee -a "$dir/runs"
		done
	done
done
awk '{ sum[$1, $3] += $4; n[$1, $3]++; tests[$1] } END {
	for (t in tests) { split("plain tls encrypted both", k, " ")
		for (i = 1; i <= 4; i++) { m = sum[t, k[i]] / n[t, k[i]]
			printf "%-18s %-10s %10.0f queries/s %6.2f of plain\n", t, k[i], m, m / (sum[t, "plain"] / n[t, "plain"]) } } }' "$dir/runs"
