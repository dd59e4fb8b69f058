package token

import "testing"

// TestVerbs: the first words tell what a statement does.
func TestVerbs(t *testing.T) {
	for text, want := range map[string]Verb{
		"SELECT 1":   Reading,
		"(select 1)": Reading,
		"/* note */ WITH x AS (SELECT 1) SELECT * FROM x": Reading,
		"update t set a = 1":                              Changing,
		"DELETE\nFROM t":                                  Changing,
		"updates":                                         Other,
		"SET a = 1":                                       Setting, "call p(1)": Calling, "CALL": Other,
		"INSERT INTO t SELECT 1":                              Changing,
		"insert into t(a, `select`) (select 1, 2)":            Changing,
		"WITH x AS (DELETE) SELECT 1":                         Reading,
		"WITH x AS (SELECT 1) DELETE FROM t":                  Changing,
		"INSERT INTO t(value, b) SELECT 1, 2":                 Changing,
		"INSERT INTO t TABLE u":                               Changing,
		"REPLACE INTO t WITH x AS (SELECT 1) SELECT * FROM x": Changing,
		"INSERT INTO t VALUES ((SELECT 1))":                   Changing,
		"INSERT INTO t(a) VALUES ('x select')":                Changing,
		"INSERT INTO t SET a = (SELECT 1)":                    Changing,
		"INSERT INTO `values` SELECT 1":                       Changing,
		"INSERT INTO t":                                       Changing,
		"/*! SELECT 1 */":                                     Other,
	} {
		if got := VerbOf(text); got != want {
			t.Errorf("%s: %d, not %d", text, got, want)
		}
	}
}
