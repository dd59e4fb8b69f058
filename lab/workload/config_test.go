package workload

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

func TestParseTargets(t *testing.T) {
	got, err := ParseTargets([]string{"eu=mysql://u:p%40%3Dw@h1:1/db", "us=mysql://h2/db",
		"eu=mysql://h3:3/db?tls=skip-verify", "mysql://h4:4/a=b"})
	if err != nil {
		t.Fatal(err)
	}
	want := "[{eu [mysql://u:p%40%3Dw@h1:1/db mysql://h3:3/db?tls=skip-verify]} {us [mysql://h2/db]} {h4:4 [mysql://h4:4/a=b]}]"
	if fmt.Sprint(got) != want {
		t.Errorf("targets are %v, want %v", got, want)
	}
	cfg, err := parseURL("mysql://u:p%40%3Dw@h1/db?readTimeout=5s")
	if err != nil || cfg.User != "u" || cfg.Passwd != "p@=w" || cfg.Addr != "h1:3306" || cfg.DBName != "db" ||
		cfg.ReadTimeout != 5e9 {
		t.Errorf("parsed %+v, %v", cfg, err)
	}
	cfg, err = parseURL("mysql:///db?socket=/run/s.sock")
	if err != nil || cfg.Net != "unix" || cfg.Addr != "/run/s.sock" || cfg.User != "root" {
		t.Errorf("parsed %+v, %v", cfg, err)
	}
	for _, bad := range []string{"", "x", "postgres://h/db", "mysql://h", "mysql://h/", "mysql:///db",
		"mysql://h/a`b", "mysql://u:secret@h/"} {
		if _, err := ParseTargets([]string{bad}); err == nil || !strings.Contains(err.Error(), "expected mysql://") {
			t.Errorf("%q: %v", bad, err)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the message shows the password: %v", err)
		}
	}
	if _, err := ParseTargets(nil); err == nil {
		t.Error("no URL is accepted")
	}
}

func TestOptionsReportAllErrors(t *testing.T) {
	for _, name := range Names() {
		if w, err := New(name, DefaultOptions()); err != nil || w.Name() != name || len(w.Kinds()) == 0 {
			t.Errorf("%s with default options: %v", name, err)
		}
		_, err := New(name, Options{Isolation: "SOME", Bank: BankOptions{Theta: 1, Cross: 2}})
		if err == nil || strings.Count(err.Error(), "\n") < 2 {
			t.Errorf("%s with bad options reports only: %v", name, err)
		}
	}
	if _, err := New("tpch", DefaultOptions()); err == nil || !strings.Contains(err.Error(), "ycsb-t") {
		t.Errorf("unknown workload: %v", err)
	}
}

func TestErrorKinds(t *testing.T) {
	my := func(n uint16, state string) error {
		e := &mysql.MySQLError{Number: n, Message: "m"}
		copy(e.SQLState[:], state)
		return fmt.Errorf("wrapped: %w", e)
	}
	for _, c := range []struct {
		err             error
		retryable, lost bool
	}{
		{my(1213, "40001"), true, false},
		{my(1205, "HY000"), true, false},
		{my(9999, "40001"), true, false},
		{my(1062, "23000"), false, false},
		{my(1053, "08S01"), false, true},
		{driver.ErrBadConn, false, true},
		{mysql.ErrInvalidConn, false, true},
		{io.EOF, false, true},
		{&connError{my(1040, "08004")}, false, true},
		{context.Canceled, false, true},
		{errRollback, false, false},
		{errors.New("other"), false, false},
		{nil, false, false},
	} {
		if Retryable(c.err) != c.retryable || connectionLost(c.err) != c.lost {
			t.Errorf("%v: retryable %v, lost %v", c.err, Retryable(c.err), connectionLost(c.err))
		}
	}
	rng := newRand(1)
	for n := range 100 {
		if d := backoff(n, rng); d < minBackoff/2 || d > maxBackoff {
			t.Errorf("back-off %d is %v", n, d)
		}
	}
}

func TestMoney(t *testing.T) {
	for in, want := range map[string]money{"0": 0, "1": 100, "1.5": 150, "-1.05": -105, "-0.01": -1, "12345678.90": 1234567890,
		"3.1400": 314, "1.2e3": 120000, "0.999": 100} {
		var m money
		if err := m.Scan([]byte(in)); err != nil || m != want {
			t.Errorf("%s is %d, %v; want %d", in, m, err, want)
		}
	}
	var m money
	for _, v := range []any{nil, int64(3), 2.5, "7.25"} {
		if err := m.Scan(v); err != nil {
			t.Errorf("%v: %v", v, err)
		}
	}
	if m.Scan([]byte("x")) == nil || m.Scan(true) == nil {
		t.Error("nonsense is an amount")
	}
	for m, want := range map[money]string{0: "0.00", 5: "0.05", -105: "-1.05", 1234567890: "12345678.90"} {
		if m.String() != want {
			t.Errorf("%d prints as %s, want %s", int64(m), m, want)
		}
	}
	var w whole
	for in, want := range map[string]whole{"12": 12, "-3": -3, "4.0": 4, "1e3": 1000} {
		if err := w.Scan([]byte(in)); err != nil || w != want {
			t.Errorf("%s is %d, %v; want %d", in, w, err, want)
		}
	}
	if w.Scan([]byte("1.5")) == nil {
		t.Error("1.5 is a whole number")
	}
	if rate(5).String() != "0.0005" || rate(2000).String() != "0.2000" {
		t.Errorf("rates print as %s and %s", rate(5), rate(2000))
	}
}
