package e2e

import (
	"net"
	"regexp"
	"strings"
	"testing"
)

// TestDump: the output of mariadb-dump or mysqldump restores the same database, with the localities
// of its tables.
func TestDump(t *testing.T) {
	dump, client := tool(t, "mariadb-dump", "mysqldump"), tool(t, "mysql", "mariadb")
	c := shared.database(t, "dumped")
	if len(c.nodes) < 3 || c.nodes[1].addr == "" {
		t.Skip("needs a cluster of Godwit")
	}
	shared.database(t, "copied")
	login := func(n *node) []string {
		host, port, _ := net.SplitHostPort(n.sql)
		return []string{"-h", host, "-P", port, "-u", "root", "--default-character-set=utf8mb4"}
	}
	outputOf(t, `
		CREATE TABLE kinds (id INT AUTO_INCREMENT PRIMARY KEY, e ENUM('a','b''c') NOT NULL DEFAULT 'b''c',
			s SET('x','y','z') DEFAULT 'x,z', d DECIMAL(12,3) DEFAULT 1.5, f DOUBLE,
			t TIMESTAMP(3) NULL DEFAULT CURRENT_TIMESTAMP(3),
			y YEAR, j JSON, b VARBINARY(40), bits BIT(6) DEFAULT b'101',
			txt TEXT, ci VARCHAR(20) COLLATE utf8mb4_general_ci, n INT DEFAULT (1 + 2),
			UNIQUE KEY (ci), CHECK (n > 0)) COMMENT='all ''kinds''';
		INSERT INTO kinds (f, y, j, b, txt, ci, t) VALUES (1e-300, 1999, '{"k": [1, null, "ü"]}', x'00ff275c0a',
			'line\nbreak \\ quote '' ü', 'One', '2024-02-29 23:59:59.125');
		INSERT INTO kinds (e, s, ci, t) VALUES ('a', '', 'Two', NULL);
		CREATE TABLE countries (code CHAR(2), name TEXT, PRIMARY KEY (code)) COMMENT='everywhere' LOCALITY GLOBAL;
		INSERT INTO countries VALUES ('is', 'Ísland'), ('mt', 'Malta');
		CREATE TABLE homed (id INT PRIMARY KEY, code CHAR(2), KEY (code),
			CONSTRAINT fk FOREIGN KEY (code) REFERENCES countries (code)) LOCALITY REGIONAL BY TABLE IN 'region-b';
		INSERT INTO homed VALUES (1, 'is'), (2, NULL);
		CREATE VIEW named AS SELECT l.id, c.name FROM homed l JOIN countries c USING (code);
		CREATE TRIGGER shout BEFORE INSERT ON homed FOR EACH ROW SET NEW.code = LOWER(NEW.code);
		CREATE PROCEDURE two() SELECT 2;
		CREATE FUNCTION three() RETURNS INT DETERMINISTIC RETURN 3;
	`, client, append(login(c.nodes[0]), "dumped")...)

	text := outputOf(t, "", dump, append(login(c.nodes[1]), "--single-transaction", "--routines", "--triggers", "dumped")...)
	outputOf(t, text, client, append(login(c.nodes[2]), "copied")...)

	// The dump of the copy equals the dump of the original, except for names and times in comments.
	again := outputOf(t, "", dump, append(login(c.nodes[0]), "--single-transaction", "--routines", "--triggers", "copied")...)
	if a, b := statements(text), statements(again); a != b {
		x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
		i := 0
		for i < min(len(x), len(y)) && x[i] == y[i] {
			i++
		}
		t.Errorf("the copy's dump differs from line %d on:\n%q\n%q", i, x[i:min(i+5, len(x))], y[i:min(i+5, len(y))])
	}
	for _, want := range []string{"/*!99999 LOCALITY GLOBAL */",
		"/*!99999 LOCALITY REGIONAL BY TABLE IN 'region-b' */", "COMMENT='everywhere'", "DEFAULT 'b''c'",
		"TRIGGER shout", "PROCEDURE"} {
		if !strings.Contains(text, want) && !strings.Contains(text, strings.ReplaceAll(want, "''", `\'`)) {
			t.Errorf("%q is not in the dump:\n%s", want, text)
		}
	}
	db := c.nodes[1].open(t, "copied")
	exec1(t, db, "INSERT INTO homed VALUES (3, 'MT')")
	var got string
	scan1(t, db, &got, "SELECT GROUP_CONCAT(CONCAT(id, name) ORDER BY id) FROM named")
	if got != "1Ísland,3Malta" {
		t.Errorf("the copy's view gives %q", got)
	}
	for column, want := range map[string]string{"HEX(b)": "00FF275C0A", "e": "b'c", "s": "x,z", "HEX(bits)": "5",
		"j->>'$.k[2]'": "ü", "f": "1e-300", "txt": "line\nbreak \\ quote ' ü"} {
		if scan1(t, db, &got, "SELECT "+column+" FROM kinds WHERE ci = 'ONE'"); got != want {
			t.Errorf("%s of the copy's row is %q, want %q", column, got, want)
		}
	}
}

// reCounter matches a table's next identifier, which depends on the node that made the table.
var reCounter = regexp.MustCompile(` AUTO_INCREMENT=\d+`)

// statements is a dump without its comments and empty lines.
func statements(dump string) string {
	var out []string
	for l := range strings.Lines(dump) {
		if l = strings.TrimSpace(l); l != "" && !strings.HasPrefix(l, "--") {
			out = append(out, l)
		}
	}
	return reCounter.ReplaceAllString(strings.Join(out, "\n"), "")
}
