package tree

import (
	"fmt"
	"strings"
	"testing"
)

// show is an access as text: its verb, then tables with ! where it changes them, and columns.
func show(a Access) string {
	out := []string{a.Verb}
	if a.Looks {
		out = append(out, "looks")
	}
	if a.Past {
		out = append(out, "past")
	}
	for _, t := range a.Tables {
		s := strings.TrimPrefix(t.DB+"."+t.Name, ".")
		if t.Changed {
			s += "!"
		}
		if len(t.Equal) > 0 {
			s += fmt.Sprint(t.Equal)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// TestAccessOf: texts of digests tell which tables they read and change, and by which columns.
func TestAccessOf(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT `v` FROM `d` . `t` WHERE `id` = ?":                                   "select d.t[id]",
		"SELECT COUNT ( * ) FROM `t` WHERE `a` IN (...) AND ( `b` = ? ) AND `c` > ?": "select t[a b]",
		"SELECT * FROM `t` WHERE `a` = ? OR `b` = ?":                                 "select t",
		"SELECT * FROM `t` WHERE `a` = `b`":                                          "select t",
		"SELECT * FROM `t` WHERE `a` IN ( SELECT `b` FROM `s` )":                     "select t s",
		"SELECT * FROM `t` JOIN `s` USING ( `id` ) WHERE `t` . `id` = ?":             "select t s",
		"SELECT * FROM `t` AS `x` , `t` AS `y`":                                      "select t",
		"SELECT * FROM `t` WHERE `id` = ? FOR UPDATE":                                "select looks t[id]",
		"SELECT * FROM `t` WHERE `id` = ? LIMIT ?":                                   "select t[id]",
		"WITH `c` AS ( SELECT * FROM `t` ) SELECT * FROM `c`":                        "select t",
		"SELECT * FROM `a` UNION SELECT * FROM `b`":                                  "select a b",
		"INSERT INTO `t` VALUES (...)":                                               "insert t!",
		"INSERT INTO `t` ( `a` , `b` ) VALUES (...) /* , ... */":                     "insert t!",
		"INSERT INTO `t` VALUES (...) ON DUPLICATE KEY UPDATE `v` = ?":               "insert looks t!",
		"INSERT INTO `t` SELECT * FROM `s`":                                          "insert s t!",
		"REPLACE INTO `t` VALUES (...)":                                              "insert looks t!",
		"UPDATE `t` SET `v` = `v` + ? WHERE `id` = ? AND `w` = ?":                    "update looks t![id w]",
		"UPDATE `t` JOIN `s` ON `t` . `id` = `s` . `id` SET `t` . `v` = ?":           "update looks t! s",
		"DELETE FROM `t` WHERE ? = `id`":                                             "delete looks t![id]",
		"SELECT * FROM `t` WHERE `id` = ? AND `d` > NOW ( ) - INTERVAL ? DAY":        "select t[id]",
		"SELECT ?": "", "COMMIT": "", "SET `x` = ?": "", "SHOW TABLES": "", "SELECT FROM WHERE": "",
		"CREATE TABLE `t` ( `a` INTEGER )": "",
	} {
		a, ok := AccessOf(text)
		if got := show(a); ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, ok, want)
		}
	}
}
