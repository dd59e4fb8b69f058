package charset

import (
	"errors"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
)

func of(t *testing.T, name string) *Set {
	t.Helper()
	id, err := sql.ParseCharacterSet(name)
	if err != nil {
		t.Fatal(err)
	}
	s, ok := Of(id)
	if !ok {
		t.Fatalf("%s is none of clients", name)
	}
	return s
}

// TestSets: the bytes of some texts, and back.
func TestSets(t *testing.T) {
	for _, x := range []struct{ set, text, bytes string }{
		{"utf8mb4", "é字", "\xc3\xa9\xe5\xad\x97"}, {"binary", "é", "\xc3\xa9"}, {"latin1", "é€", "\xe9\x80"}, {"latin2", "ł", "\xb3"},
		{"latin5", "ğ", "\xf0"}, {"cp1250", "ł", "\xb3"}, {"cp1251", "Ж", "\xc6"}, {"koi8r", "Ж", "\xf6"}, {"greek", "λ", "\xeb"},
		{"gbk", "字", "\xd7\xd6"}, {"big5", "字", "\xa6\x72"}, {"sjis", "ソ", "\x83\x5c"}, {"euckr", "가", "\xb0\xa1"}, {"ujis", "字", "\xbb\xfa"},
		{"dec8", "é", "\xe9"},
	} {
		s := of(t, x.set)
		got, err := s.Decode(x.bytes + " a'")
		if err != nil || got != x.text+" a'" {
			t.Errorf("%s: %q is %q, %v; want %q", x.set, x.bytes, got, err, x.text)
		}
		if b := string(s.Encode([]byte(x.text + " a"))); b != x.bytes+" a" {
			t.Errorf("%s: %q is %q; want %q", x.set, x.text, b, x.bytes)
		}
	}
	if b := string(of(t, "latin1").Encode([]byte("é字€"))); b != "\xe9?\x80" {
		t.Errorf("what is not there: %q", b)
	}
	for _, x := range []struct{ set, bytes string }{{"gbk", "a\xff"}, {"ascii", "\xe9"}} {
		var e *mysql.SQLError
		if got, err := of(t, x.set).Decode(x.bytes); !errors.As(err, &e) || e.Num != 1300 {
			t.Errorf("%s: %q, %v", x.set, got, err)
		}
	}
	for _, name := range []string{"utf16", "ucs2", "utf32", "hp8"} {
		id, err := sql.ParseCharacterSet(name)
		if _, ok := Of(id); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
}

// TestIntroducers: literals with the name of a set keep their bytes.
func TestIntroducers(t *testing.T) {
	got, err := of(t, "latin1").Statement("SELECT 'é', _binary 'é', _latin1'\xe9', x_a 'é', _utf8mb4 \"é\" -- é")
	if want := strings.ReplaceAll("SELECT '#', _binary 'é', _latin1'\xe9', x_a '#', _utf8mb4 \"é\" -- #", "#", "Ã©"); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	// A backslash that is a part of a character ends no string.
	sjis := of(t, "sjis")
	if got, err = sjis.Statement("SELECT '\x83\x5c', _binary 'x'"); err != nil || got != "SELECT 'ソ', _binary 'x'" {
		t.Errorf("%q, %v", got, err)
	}
	var e *mysql.SQLError
	if got, err = sjis.Statement("SELECT _binary '\x83\x5c'"); !errors.As(err, &e) || e.Num != 1235 {
		t.Errorf("%q, %v", got, err)
	}
}
