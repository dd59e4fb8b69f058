package schema

import "testing"

// TestTriggerTable: a trigger whose table is not found would never fire, and nobody would be told.
func TestTriggerTable(t *testing.T) {
	for stmt, want := range map[string]string{
		"CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1":           "t",
		"create trigger x after update on `a b` for each row delete from t":        "a b",
		"CREATE TRIGGER x BEFORE INSERT ON \"t\" FOR EACH ROW SET NEW.\"a\" = 1":   "t",
		"CREATE TRIGGER x AFTER DELETE ON d.t FOR EACH ROW DELETE FROM u":          "t",
		"CREATE TRIGGER x AFTER DELETE ON \"d\" . `t` FOR EACH ROW DELETE FROM u":  "t",
		"CREATE TRIGGER x AFTER DELETE ON my$t\nFOR EACH ROW DELETE FROM u":        "my$t",
		"CREATE TRIGGER x AFTER DELETE ON t\u00e4glich FOR EACH ROW DELETE FROM u": "t\u00e4glich",
	} {
		if got := TriggerTable(stmt); got != want {
			t.Errorf("%s: the table is %q, want %q", stmt, got, want)
		}
	}
}
