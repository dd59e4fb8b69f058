package server

import (
	"strings"
	"testing"
	"testing/iotest"
)

// TestLoadDataSets: a file is read in the character set that the statement names. MariaDB 10.11 has
// the same rows.
func TestLoadDataSets(t *testing.T) {
	_, pool := newServer(t)
	c := conn(t, pool)
	exec(t, c, "SET GLOBAL local_infile = 1")
	exec(t, c, "CREATE TABLE s (id INT PRIMARY KEY, v VARCHAR(40), w VARCHAR(40))")
	exec(t, c, "CREATE TABLE e (id INT PRIMARY KEY, v ENUM('é', 'a'), w VARCHAR(40))") // go-mysql-server loads it
	for _, x := range []struct{ set, v, w, show string }{
		{"latin1", "\xe9\x80", "x", "é€|x"},
		{"cp1251", "\xc6\xf3\xea", "\xff", "Жук|я"},
		{"koi8r", "\xf6", "a,b", "Ж|a,b"},
		{"latin2", "\xb3", "", "ł|"},
		// The second byte is a backslash.
		{"gbk", "\xd7\xd6\x81\x5c", "z", "字乗|z"},
		{"sjis", "\x83\x5c", "\x83\x5c", "ソ|ソ"},
		{"gb18030", "\x81\x30\x81\x30", "", "\u0080|"},
		{"dec8", "\xe9", "", "é|"},
		{"utf8mb4", "é字", "", "é字|"},
		{"binary", "é", "", "é|"},
		{"ascii", "e", "", "e|"},
	} {
		exec(t, c, "DELETE FROM s")
		file := "1\t" + x.v + "\t" + x.w + "\n2\t\\N\t\\t\n"
		if err := loading(t, c, iotest.OneByteReader(strings.NewReader(file)), "FILE INTO TABLE s CHARACTER SET "+x.set); err != nil {
			t.Errorf("%s: %v", x.set, err)
			continue
		}
		expect(t, c, "SELECT v, w FROM s WHERE id = 1", x.show)
		expect(t, c, "SELECT v IS NULL, w = '\\t' FROM s WHERE id = 2", "1|1")
	}
	// Terminators are those of the text; reads of a file end within characters.
	exec(t, c, "DELETE FROM s")
	if err := loading(t, c, strings.NewReader("1\xa7a\xa7'b\xa7c'\n"), "FILE INTO TABLE s CHARACTER SET latin1 "+
		"FIELDS TERMINATED BY '§' ENCLOSED BY ''''"); err != nil {
		t.Error(err)
	}
	expect(t, c, "SELECT * FROM s", "1|a|b§c")
	exec(t, c, "CREATE TABLE lone (v LONGTEXT)")
	if err := loading(t, c, strings.NewReader("a"+strings.Repeat("\xd7\xd6", 200_000)), "FILE INTO TABLE lone CHARACTER SET gbk"); err != nil {
		t.Error(err)
	}
	expect(t, c, "SELECT CHAR_LENGTH(v), v = CONCAT('a', REPEAT('字', 200000)) FROM lone", "200001|1")
	if err := loading(t, c, strings.NewReader("1\t\xe9\t\xea\n"), "FILE INTO TABLE e CHARACTER SET latin1"); err != nil {
		t.Error(err)
	}
	expect(t, c, "SELECT * FROM e", "1|é|ê")
	exec(t, c, "DELETE FROM s")
	for _, x := range []struct {
		set, file string
		number    uint16
	}{
		{"gbk", "1\ta\tb\n2\t\xff\tb\n", 1300}, {"gbk", "1\ta\t\xd7", 1300}, {"ascii", "1\t\xe9\t\n", 1300},
		{"utf16", "x", 1235}, {"utf32", "x", 1235}, {"ucs2", "x", 1235}, {"hp8", "x", 1235}, {"nosuch", "x", 1115},
	} {
		for _, table := range []string{"s", "e"} {
			err := loading(t, c, strings.NewReader(x.file), "FILE INTO TABLE "+table+" CHARACTER SET "+x.set)
			if err == nil || uint16(errNumber(t, err)) != x.number {
				t.Errorf("%s into %s: %v, want error %d", x.set, table, err, x.number)
			}
		}
	}
	expect(t, c, "SELECT COUNT(*) FROM s", "0")
}
