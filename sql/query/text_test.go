package query

import "testing"

// TestKinds: the first words tell what a statement does.
func TestKinds(t *testing.T) {
	for text, want := range map[string]kind{
		"SELECT 1":   reading,
		"(select 1)": reading,
		"/* note */ WITH x AS (SELECT 1) SELECT * FROM x":     reading,
		"update t set a = 1":                                  changing,
		"DELETE\nFROM t":                                      changing,
		"updates":                                             other,
		"SET a = 1":                                           other,
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

// TestTriggersFire: a trigger is asked for by its event and its table, whatever else its text says.
func TestTriggersFire(t *testing.T) {
	const create = "CREATE TRIGGER x BEFORE UPDATE ON `d`.`T1` FOR EACH ROW INSERT INTO t2 VALUES (1)"
	for _, c := range []struct {
		text, event, table string
		want               bool
	}{
		{create, "update", "t1", true},
		{create, "delete", "t1", false},
		{create, "insert", "t2", false},
		{"create trigger x after delete on a\n for  each row set @x = 1", "delete", "a", true},
		{"create trigger x after delete /* odd */ on a for each row set @x = 1", "insert", "b", true},
	} {
		if got := fires(c.text, c.event, c.table); got != c.want {
			t.Errorf("%s of %s: %v: %s", c.event, c.table, got, c.text)
		}
	}
}
