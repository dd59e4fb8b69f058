package workload

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestMySQL runs every workload through the command line against the server in
// GODWIT_TEST_MYSQL_URL, in a database whose tables it replaces, once with prepared statements and
// once with text.
func TestMySQL(t *testing.T) {
	url := os.Getenv("GODWIT_TEST_MYSQL_URL")
	if url == "" {
		t.Skip("set GODWIT_TEST_MYSQL_URL=mysql://user:password@host:port/database to test against a server")
	}
	run := func(t *testing.T, args string) string {
		t.Helper()
		var out bytes.Buffer
		c := Command()
		c.SetArgs(strings.Fields(args))
		c.SetOut(&out)
		c.SetErr(&out)
		if err := c.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out.String())
		}
		return out.String()
	}
	two := fmt.Sprintf(" --url a=%s --url b=%s", url, url)
	for _, c := range []struct{ name, load, run string }{
		{"tpcc", "--warehouses 3 --scale 0.01", ""},
		{"tpcc", "--warehouses 2 --scale 0.01 --history-key", "--history-key --remote-lines 0.5 --remote-payments 0.5"},
		{"ycsb", "--records 500 --fields 3", "--fields 3 --mix a"},
		{"ycsb", "--records 500", "--mix d --remote 0.5"},
		{"ycsb", "--records 500", "--mix e"},
		{"ycsb", "--records 500", "--mix f --text"},
		{"ycsb-t", "--records 500", "--cross 0.5"},
		{"bank", "--accounts 100", "--cross 0.5 --audits 0.05 --lookups 0.1"},
		{"travel", "--users 40", "--stay 1s --settle 300ms"},
	} {
		for _, mode := range []string{"", " --text"} {
			t.Run(c.name+c.run+mode, func(t *testing.T) {
				run(t, "init "+c.name+" --drop "+c.load+two)
				out := run(t, "run "+c.name+" --duration 1s --clients 2 --check "+c.run+mode+two)
				if !strings.Contains(out, "\nok ") || strings.Contains(out, "FAIL") {
					t.Errorf("checks are missing or fail:\n%s", out)
				}
				if !strings.Contains(run(t, "check "+c.name+" --json --url "+url), `"ok":true`) {
					t.Error("check as JSON shows no success")
				}
			})
		}
	}
}

// TestCommand checks the command line as far as no server is needed.
func TestCommand(t *testing.T) {
	for args, want := range map[string]string{
		"init tpcc":                                                        "no URL",
		"run bank --url ftp://x/y":                                         "expected mysql://",
		"run ycsb --mix z --url mysql://h/d":                               "letter from A to F",
		"run ycsb-t --ops 1 --span 1 --url mysql://h/d":                    "span is 1",
		"init tpcc --scale 7 --url mysql://h/d":                            "scale is 7",
		"init tpcc --warehouses 1 --url a=mysql://h/d --url b=mysql://h/d": "2 regions need",
		"run bank --isolation magic --url mysql://h/d":                     "SERIALIZABLE",
		"run bank --clients -1 --url mysql://h/d":                          "clients is -1",
	} {
		var out bytes.Buffer
		c := Command()
		c.SetArgs(strings.Fields(args))
		c.SetOut(&out)
		c.SetErr(&out)
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
	for _, verb := range []string{"init", "run", "check"} {
		for _, name := range Names() {
			var out bytes.Buffer
			c := Command()
			c.SetArgs([]string{verb, name, "--help"})
			c.SetOut(&out)
			if err := c.Execute(); err != nil || !strings.Contains(out.String(), "--url") {
				t.Errorf("help of %s %s: %v\n%s", verb, name, err, out.String())
			}
		}
	}
}
