package server

import (
	"io"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// TestLoadDataEnclosed: enclosed fields are read as MySQL does. MariaDB 10.11 has the same rows.
func TestLoadDataEnclosed(t *testing.T) {
	_, c := newServer(t)
	exec(t, c, "SET GLOBAL local_infile = 1")
	exec(t, c, "CREATE TABLE f (id INT PRIMARY KEY, t VARCHAR(40), u VARCHAR(40))")
	load := func(file, what string) {
		t.Helper()
		mysql.RegisterReaderHandler("enclosed", func() io.Reader { return strings.NewReader(file) })
		defer mysql.DeregisterReaderHandler("enclosed")
		exec(t, c, "DELETE FROM f")
		exec(t, c, "LOAD DATA LOCAL INFILE 'Reader::enclosed' INTO TABLE f FIELDS TERMINATED BY ',' "+what)
	}
	const shown = "SELECT id, QUOTE(t), QUOTE(u) FROM f ORDER BY id"
	load("1,\"say, \"\"hi\"\"\",x\n2,\"two\nlines\",\\N\n3,\"5\" wide\",6\" \n4,\"\",\n5,\"a\\\"b\\\\c\",plain\n6,\"x\"",
		`OPTIONALLY ENCLOSED BY '"'`)
	expect(t, c, shown, `1|'say, "hi"'|'x'`, "2|'two\nlines'|NULL", `3|'5" wide'|'6" '`, "4|''|''",
		`5|'a"b\\c'|'plain'`, "6|'x'|NULL")
	load("id,t,u\r\n1,\"c:\\new \"\"q\"\"\",c:\\x\r\n2,\"a\r\nb\",NULL\r\n",
		`ENCLOSED BY '"' ESCAPED BY '' LINES TERMINATED BY '\r\n' IGNORE 1 LINES`)
	expect(t, c, shown, `1|'c:\\new "q"'|'c:\\x'`, "2|'a\r\nb'|NULL")
}
