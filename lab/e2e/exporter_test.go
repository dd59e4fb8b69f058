package e2e

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestMySQLExporter: the program with which Prometheus watches MySQL reads a node's status,
// variables and statistics of statements.
func TestMySQLExporter(t *testing.T) {
	program, err := exec.LookPath("prometheus-mysqld-exporter")
	if err != nil {
		t.Skip("no prometheus-mysqld-exporter is installed (apt-get install prometheus-mysqld-exporter): it does not read performance_schema")
	}
	n := alone(t)
	exec1(t, n.open(t, ""), "CREATE DATABASE d")
	db := n.open(t, "d") // the exporter leaves out statements of no database
	for _, q := range []string{"CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"} {
		exec1(t, db, q)
	}
	at := port(t)
	e := exec.Command(program, "--web.listen-address", at, "--collect.global_status", "--collect.global_variables",
		"--collect.perf_schema.eventsstatements", "--collect.info_schema.processlist", "--collect.info_schema.tables", "--collect.mysql.user")
	e.Env = append(os.Environ(), "DATA_SOURCE_NAME=root:@tcp("+n.sql+")/")
	log := &output{}
	e.Stdout, e.Stderr = log, log
	if err := e.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = e.Process.Kill()
		_ = e.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	text := ""
	for begin := time.Now(); text == "" && time.Since(begin) < patience; time.Sleep(100 * time.Millisecond) {
		res, err := http.Get("http://" + at + "/metrics")
		if err != nil {
			continue // it starts
		}
		b, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		text = string(b)
	}
	for _, want := range []string{"\nmysql_up 1\n", "\nmysql_global_status_slow_queries 0\n", "\nmysql_global_variables_max_connections ",
		"\nmysql_info_schema_table_rows{", "\nmysql_perf_schema_events_statements_total{"} {
		if !strings.Contains(text, want) {
			t.Errorf("the exporter does not say %q, but it has %d lines", want, strings.Count(text, "\n"))
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "mysql_exporter_collector_success{") && strings.HasSuffix(line, " 0\n") {
			t.Errorf("a collector has failed: %s", line)
		}
		if strings.HasPrefix(line, "mysql_perf_schema_events_statements_total{") && strings.Contains(line, "INSERT INTO `t`") && !strings.HasSuffix(line, " 2\n") {
			t.Errorf("two rows were inserted by statements of their own: %s", line)
		}
	}
}
