package zone

import (
	"errors"
	"testing"
	"time"
)

func TestNames(t *testing.T) {
	at := time.Date(2024, 7, 1, 0, 0, 0, 0, time.UTC)
	for name, want := range map[string]int{
		"+02:00": 7200, "-5:30": -19800, "+14:00": 50400, "-13:59": -50340, "Europe/Berlin": 7200, "europe/berlin": 7200,
		"AMERICA/PORT-AU-PRINCE": -14400, "africa/dar_es_salaam": 10800, "utc": 0, "UTC": 0, "cet": 7200, "est5edt": -14400,
		"etc/gmt+5": -18000, "us/pacific": -25200, "+00:00": 0,
	} {
		l, ok := Load(name)
		if !ok {
			t.Errorf("%s is unknown", name)
			continue
		}
		if _, got := at.In(l).Zone(); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
	for _, name := range []string{"", "+14:01", "-14:00", "+2", "+02:60", "+002:00", "+ 2:00", "Nowhere/City", "Local", "../etc/passwd",
		"/etc/localtime", "Europe", "+02:00 "} {
		if _, ok := Load(name); ok {
			t.Errorf("%q is a zone", name)
		}
	}
	for _, name := range []string{"UTC", "+00:00", "-00:00", "Etc/Universal", "Zulu"} {
		if l, _ := Load(name); l != time.UTC {
			t.Errorf("%s is not time.UTC itself", name)
		}
	}
	for name, want := range map[string]string{"system": "SYSTEM", "+2:00": "+02:00", "europe/berlin": "Europe/Berlin"} {
		if got, err := Canonical(name); got != want || err != nil {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
}

// TestReadOnce: the rules of a zone are read once, however often and in whatever way it is asked
// for.
func TestReadOnce(t *testing.T) {
	n := 0
	read = func(name string) (*time.Location, error) { n++; return time.LoadLocation(name) }
	defer func() { read = time.LoadLocation }()
	for range 3 {
		if got, err := Canonical("Asia/Tokyo"); got != "Asia/Tokyo" || err != nil {
			t.Fatal(got, err)
		}
		if _, ok := Load("Asia/Tokyo"); !ok {
			t.Fatal("no Asia/Tokyo")
		}
	}
	if n != 1 {
		t.Errorf("the zone was read %d times", n)
	}
}

// TestSystemZone: the name of the machine's zone is found where Go finds the zone, and only if it
// is that zone's.
func TestSystemZone(t *testing.T) {
	was := time.Local
	defer func() { time.Local = was }()
	none := func(string) string { return "" }
	missing := func(string) (string, error) { return "", errors.New("no link") }
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		local *time.Location
		env   func(string) string
		link  func(string) (string, error)
		want  string
		ok    bool
	}{
		{time.UTC, none, missing, "UTC", true},
		{berlin, func(string) string { return ":Europe/Berlin" }, missing, "Europe/Berlin", true},
		{berlin, none, func(string) (string, error) { return "../usr/share/zoneinfo/Europe/Berlin", nil }, "Europe/Berlin", true},
		{berlin, none, func(string) (string, error) { return "/usr/share/zoneinfo/Asia/Tokyo", nil }, "", false},
		{berlin, none, missing, "", false},
		{time.FixedZone("Local", 0), none, missing, "UTC", true},
	} {
		time.Local = c.local
		if got, ok := systemZone(c.env, c.link); got != c.want || ok != c.ok {
			t.Errorf("%v: %s, %v, want %s, %v", c.local, got, ok, c.want, c.ok)
		}
	}
}

func TestLiterals(t *testing.T) {
	berlin, _ := Load("Europe/Berlin")
	for in, want := range map[string]string{"'2024-07-01 12:00:00'": "2024-07-01 10:00:00", "20240101120000": "2024-01-01 11:00:00",
		"'2024-01-01 12:00:00.5'": "2024-01-01 11:00:00.500000"} {
		got, ok := Declared(in, berlin)
		if got != want || !ok {
			t.Errorf("%s: %s", in, got)
		}
	}
	if got, _ := Shown("'2024-07-01 10:00:00'", berlin); got != "2024-07-01 12:00:00" {
		t.Error(got)
	}
	for in, want := range map[string]string{"'2024-07-01 10:00:00'": "'2024-07-01 10:00:00+00:00'", "CURRENT_TIMESTAMP": "CURRENT_TIMESTAMP",
		"'0000-00-00 00:00:00'": "'0000-00-00 00:00:00'", "NULL": "NULL", "0": "0"} {
		if got := Fixed(in); got != want {
			t.Errorf("%s: %s", in, got)
		}
	}
}
