package migrate

import (
	"strings"
	"testing"

	"github.com/godwitdb/godwit/sql/follow"
)

func TestParseAddress(t *testing.T) {
	a, err := ParseAddress("mysql://me:p%40ss@db.example.com/shop,crm?tls=true")
	if err != nil || a.Host != "db.example.com:3306" || a.User != "me" || a.Password != "p@ss" || len(a.Databases) != 2 || a.TLS != "true" {
		t.Errorf("%+v, %v", a, err)
	}
	a, err = ParseAddress("mysql://root@[::1]:4000/")
	if err != nil || a.Host != "[::1]:4000" || a.Databases != nil || a.TLS != "preferred" {
		t.Errorf("%+v, %v", a, err)
	}
	for _, bad := range []string{"", "root@host", "postgres://u@h", "mysql://host:3306/", "mysql://u:se%ZZcret@h", "mysql://u:secret@h/?ssl=1",
		"mysql://u:secret@h/?tls=maybe"} {
		if a, err := ParseAddress(bad); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %+v, %v", bad, a, err)
		}
	}
}

// TestTexts: what is taken out of definitions, and what stays.
func TestTexts(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{follow.Definer.ReplaceAllString("CREATE DEFINER=`a b`@`%` TRIGGER t", ""), "CREATE  TRIGGER t"},
		{follow.Definer.ReplaceAllString("CREATE ALGORITHM=UNDEFINED DEFINER='x'@'y' SQL SECURITY DEFINER VIEW v", ""),
			"CREATE ALGORITHM=UNDEFINED  SQL SECURITY DEFINER VIEW v"},
		{follow.Partitions.ReplaceAllString("CREATE TABLE t (\n a INT\n) ENGINE=InnoDB\n PARTITION BY HASH (a)\nPARTITIONS 4", ""),
			"CREATE TABLE t (\n a INT\n) ENGINE=InnoDB"},
		{follow.Partitions.ReplaceAllString("CREATE TABLE t (\n a INT\n) ENGINE=InnoDB\n/*!50100 PARTITION BY HASH (a) */", ""),
			"CREATE TABLE t (\n a INT\n) ENGINE=InnoDB"},
		{jsonChecks.ReplaceAllString("`x` longtext DEFAULT NULL CHECK (json_valid(`x`)),", ""), "`x` longtext DEFAULT NULL,"},
		{follow.StripComments("/* a */ /*!50001 DROP */ x"), "DROP */ x"},
		{string(follow.QuoteText(nil, "a'b\\c\n\x00")), `'a\'b\\c\n\0'`},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
