package query

import "testing"

// TestKinds: the first words tell what a statement does.
func TestKinds(t *testing.T) {
	for text, want := range map[string]kind{
		"SELECT 1":   reading,
		"(select 1)": reading,
		"/* note */ WITH x AS (SELECT 1) SELECT * FROM x": reading,
		"update t set a = 1":                              changing,
		"DELETE\nFROM t":                                  changing,
		"updates":                                         other,
		"SET a = 1":                                       setting, "call p(1)": calling, "CALL": other,
		"INSERT INTO t SELECT 1":                              changing,
		"insert into t(a, `select`) (select 1, 2)":            changing,
		"WITH x AS (DELETE) SELECT 1":                         reading,
		"WITH x AS (SELECT 1) DELETE FROM t":                  changing,
		"INSERT INTO t(value, b) SELECT 1, 2":                 changing,
		"INSERT INTO t TABLE u":                               changing,
		"REPLACE INTO t WITH x AS (SELECT 1) SELECT * FROM x": changing,
		"INSERT INTO t VALUES ((SELECT 1))":                   changing,
		"INSERT INTO t(a) VALUES ('x select')":                changing,
		"INSERT INTO t SET a = (SELECT 1)":                    changing,
		"INSERT INTO `values` SELECT 1":                       changing,
		"INSERT INTO t":                                       changing,
		"/*! SELECT 1 */":                                     other,
	} {
		if got := kindOf(text); got != want {
			t.Errorf("%s: %d, not %d", text, got, want)
		}
	}
}
