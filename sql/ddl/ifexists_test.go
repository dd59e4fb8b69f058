package ddl

import "testing"

func TestWithoutIfNotExists(t *testing.T) {
	const end = " BEFORE INSERT ON k FOR EACH ROW SET @x = 'CREATE TRIGGER IF NOT EXISTS'"
	for in, want := range map[string]string{
		"create trigger if not exists t" + end:                            "create trigger t" + end,
		"/* a */ -- b\n# c\nCREATE TRIGGER\nIF  NOT EXISTS t" + end:       "/* a */ -- b\n# c\nCREATE TRIGGER\nt" + end,
		"/*!50003 CREATE PROCEDURE IF NOT EXISTS p() SET @x = 1 */":       "/*!50003 CREATE PROCEDURE p() SET @x = 1 */",
		"CREATE DEFINER = 'a' @ '%' PROCEDURE IF NOT EXISTS p() SET @x=1": "CREATE DEFINER = 'a' @ '%' PROCEDURE p() SET @x=1",
		"/* CREATE TRIGGER IF NOT EXISTS t */ CREATE TRIGGER t" + end:     "/* CREATE TRIGGER IF NOT EXISTS t */ CREATE TRIGGER t" + end,
		"/* a */ x /* b */ CREATE TRIGGER IF NOT EXISTS t":                "/* a */ x /* b */ CREATE TRIGGER IF NOT EXISTS t",
		"CREATE TABLE IF NOT EXISTS t (a INT)":                            "CREATE TABLE IF NOT EXISTS t (a INT)",
	} {
		if got := withoutIfNotExists(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
