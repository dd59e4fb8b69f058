package expr_test

import (
	"bufio"
	"database/sql"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"strconv"
	"strings"
	"testing"

	sql2 "github.com/dolthub/go-mysql-server/sql"
	"github.com/go-sql-driver/mysql"
)

// generator makes random expressions that MariaDB 10.11 and MySQL 8 compute alike.
type generator struct{ r *rand.Rand }

func (g *generator) one(list ...string) string { return list[g.r.Intn(len(list))] }

func (g *generator) num(d int) string {
	if d <= 0 {
		return g.one("0", "1", "-1", "2", "7", "10", "100", "-3", "0.5", "1.25", "-2.75", "99.999", "1e2", "2.5e-1", "NULL",
			"9223372036854775807", "4294967296", "12345678901234567890", "123456789.123456789", "0.000001", "'5'",
			"'1.5x'", "TRUE")
	}
	x, y := func() string { return g.num(d - 1 - g.r.Intn(2)) }, func() string { return g.text(d - 1) }
	switch g.r.Intn(22) {
	case 0, 1, 2, 3:
		return "(" + x() + g.one(" + ", " - ", " * ", " / ", " DIV ", " % ") + x() + ")"
	case 4:
		return "-(" + x() + ")"
	case 5:
		return g.one("ABS", "SIGN", "FLOOR", "CEIL", "ROUND") + "(" + x() + ")"
	case 6:
		return g.one("ROUND", "TRUNCATE") + "(" + x() + ", " + g.one("0", "1", "2", "-1", "5") + ")"
	case 7:
		return g.one("LENGTH", "CHAR_LENGTH", "ASCII", "BIT_LENGTH", "ORD") + "(" + y() + ")"
	case 8:
		return "CAST(" + x() + " AS " + g.one("SIGNED", "DECIMAL(10,2)", "DECIMAL(30,10)", "DOUBLE") + ")"
	case 9:
		return "(" + x() + g.one(" & ", " | ", " ^ ", " << ", " >> ") + g.one("1", "3", "7", "60") + ")"
	case 10:
		return "CASE WHEN " + g.cond(d-1) + " THEN " + x() + " ELSE " + x() + " END"
	case 11:
		return g.one("COALESCE", "IFNULL", "NULLIF") + "(" + x() + ", " + x() + ")"
	case 12:
		return "IF(" + g.cond(d-1) + ", " + x() + ", " + x() + ")"
	case 13:
		return g.one("YEAR", "MONTH", "DAY", "DAYOFWEEK", "WEEKDAY", "DAYOFYEAR", "QUARTER", "TO_DAYS", "WEEK",
			"YEARWEEK", "HOUR", "MINUTE", "SECOND") + "(" + g.date(d-1) + ")"
	case 14:
		return "DATEDIFF(" + g.date(d-1) + ", " + g.date(d-1) + ")"
	case 15:
		return "TIMESTAMPDIFF(" + g.one("YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND", "MICROSECOND", "WEEK",
			"QUARTER") + ", " + g.date(d-1) + ", " + g.date(d-1) + ")"
	case 16:
		return g.one("INSTR", "LOCATE", "STRCMP", "FIND_IN_SET") + "(" + y() + ", " + y() + ")"
	case 17:
		// With strings among the numbers MySQL compares strings, MariaDB numbers.
		return g.one("GREATEST", "LEAST") + "(0 + " + x() + ", 0 + " + x() + ")"
	case 18:
		return "EXTRACT(" + g.one("YEAR_MONTH", "DAY_HOUR", "HOUR_MINUTE", "MINUTE_SECOND", "YEAR", "SECOND") +
			" FROM " + g.date(d-1) + ")"
	case 19:
		return "FIELD(" + y() + ", " + y() + ", " + y() + ")"
	case 20:
		return "CRC32(" + y() + ")"
	}
	return g.cond(d - 1)
}

func (g *generator) cond(d int) string {
	if d <= 0 {
		return g.one("TRUE", "FALSE", "NULL", "(1 = 1)", "('a' = 'A')", "(NULL IS NULL)")
	}
	x, y := func() string { return g.num(d - 1) }, func() string { return g.text(d - 1) }
	c := func() string { return g.cond(d - 1) }
	switch g.r.Intn(14) {
	case 0, 1:
		return "(" + x() + g.one(" = ", " < ", " <= ", " > ", " >= ", " <> ", " <=> ") + x() + ")"
	case 2:
		return "(" + y() + g.one(" = ", " < ", " <= ", " > ", " <> ", " <=> ") + y() + ")"
	case 3:
		return "(" + x() + g.one(" = ", " < ", " <=> ") + y() + ")"
	case 4:
		return "(" + c() + g.one(" AND ", " OR ", " XOR ") + c() + ")"
	case 5:
		return "(NOT " + c() + ")"
	case 6:
		return "(" + x() + g.one(" IN ", " NOT IN ") + "(" + x() + ", " + x() + ", " + x() + "))"
	case 7:
		return "(" + y() + g.one(" IN ", " NOT IN ") + "(" + y() + ", " + y() + "))"
	case 8:
		return "(" + x() + g.one(" BETWEEN ", " NOT BETWEEN ") + x() + " AND " + x() + ")"
	case 9:
		return "(" + y() + g.one(" LIKE ", " NOT LIKE ") + g.one("'a%'", "'%b%'", "'_b_'", "'%'", "'A\\\\_b'",
			"'abc'", "''") + ")"
	case 10:
		return "(" + c() + g.one(" IS NULL", " IS NOT NULL", " IS TRUE", " IS FALSE", " IS NOT TRUE") + ")"
	case 11:
		return "(" + g.date(d-1) + g.one(" = ", " < ", " >= ", " <=> ") + g.date(d-1) + ")"
	case 12:
		return "(" + g.date(d-1) + g.one(" = ", " < ", " >= ") + g.one("'2024-02-29'", "'2023-12-31 23:59:59'", "20240229") + ")"
	}
	return "((" + x() + ", " + y() + ")" + g.one(" = ", " < ", " <> ") + "(" + x() + ", " + y() + "))"
}

func (g *generator) text(d int) string {
	if d <= 0 {
		return g.one("''", "'a'", "'A'", "'abc'", "'a_b'", "'b'", "'5'", "'12x'", "' x '", "'José'", "'x,b,A'",
			"NULL", "'2024-02-29'")
	}
	y, x := func() string { return g.text(d - 1) }, func() string { return g.num(d - 1) }
	switch g.r.Intn(15) {
	case 0, 1:
		return "CONCAT(" + y() + ", " + y() + ")"
	case 2:
		return g.one("UPPER", "LOWER", "REVERSE", "TRIM", "LTRIM", "RTRIM", "QUOTE", "HEX") + "(" + y() + ")"
	case 3:
		return "SUBSTRING(" + y() + ", " + g.one("1", "2", "-2", "0", "9") + ", " + g.one("1", "2", "5", "-1") + ")"
	case 4:
		return g.one("LEFT", "RIGHT", "REPEAT") + "(" + y() + ", " + g.one("0", "1", "3", "-1") + ")"
	case 5:
		return g.one("LPAD", "RPAD") + "(" + y() + ", " + g.one("0", "2", "6") + ", 'xy')"
	case 6:
		return "REPLACE(" + y() + ", " + y() + ", 'z')"
	case 7:
		return "CONCAT_WS('-', " + y() + ", " + y() + ", " + y() + ")"
	case 8:
		return "IF(" + g.cond(d-1) + ", " + y() + ", " + y() + ")"
	case 9:
		return "SUBSTRING_INDEX(" + y() + ", " + g.one("'b'", "','", "'-'") + ", " + g.one("1", "-1", "2") + ")"
	case 10:
		return "DATE_FORMAT(" + g.date(d-1) + ", " + g.one("'%Y-%m-%d'", "'%W %M %e %y'", "'%j %U %u %V %v %X %x'",
			"'%H:%i:%s.%f %p %h'", "'%D %a %b %c'") + ")"
	case 11:
		return "INSERT(" + y() + ", 2, 1, " + y() + ")"
	case 12:
		return "ELT(" + g.one("1", "2", "3", "0") + ", " + y() + ", " + y() + ")"
	case 13:
		return "CAST(" + x() + " AS CHAR)"
	}
	return "COALESCE(" + y() + ", " + y() + ")"
}

func (g *generator) date(d int) string {
	if d <= 0 {
		return g.one("date '2024-02-29'", "timestamp '2023-12-31 23:59:59'", "timestamp '2024-01-01 00:00:00.5'",
			"date '1999-01-31'",
			"timestamp '2000-03-01 12:30:00'", "date '2016-01-03'", "NULL")
	}
	x := func() string { return g.date(d - 1) }
	switch g.r.Intn(7) {
	case 0, 1, 2:
		return "(" + x() + g.one(" + ", " - ") + "INTERVAL " + g.one("1", "-1", "13", "100", "'2'") + " " +
			g.one("DAY", "MONTH", "YEAR", "WEEK", "QUARTER", "HOUR", "MINUTE", "SECOND", "MICROSECOND") + ")"
	case 3:
		return "(" + x() + " + INTERVAL " + g.one("'1:30' HOUR_MINUTE", "'1 2' DAY_HOUR", "'1-2' YEAR_MONTH",
			"'1.5' SECOND", "1.25 SECOND", "'3:4.5' MINUTE_MICROSECOND") + ")"
	case 4:
		return "LAST_DAY(" + x() + ")"
	case 5:
		return "CAST(" + x() + " AS " + g.one("DATE", "DATETIME(6)", "DATETIME(3)") + ")"
	}
	return "DATE(" + x() + ")"
}

// connect opens the MariaDB that GODWIT_MARIADB names, like
// "root@unix(/run/mysqld/mysqld.sock)/".
func connect(t *testing.T) *sql.DB {
	t.Helper()
	dsn := os.Getenv("GODWIT_MARIADB")
	if dsn == "" {
		t.Skip("GODWIT_MARIADB names no MariaDB to compare with")
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	for _, q := range []string{
		"SET NAMES utf8mb4 COLLATE utf8mb4_general_ci",
		"SET timestamp = UNIX_TIMESTAMP('2024-02-29 13:14:15'), time_zone = '+00:00'",
		"SET sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE,NO_ENGINE_SUBSTITUTION'",
	} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func ask(db *sql.DB, text string) string {
	var s sql.NullString
	err := db.QueryRow("SELECT " + text).Scan(&s)
	var e *mysql.MySQLError
	switch {
	case errors.As(err, &e):
		return fmt.Sprintf("error %d", e.Number)
	case err != nil:
		return err.Error()
	case !s.Valid:
		return "NULL"
	}
	return s.String
}

// same compares two answers: numbers by value, to 13 digits if one is a double.
func same(a, b string) bool {
	if a == b || strings.HasPrefix(a, "error") && strings.HasPrefix(b, "error") {
		return true
	}
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	if err != nil || err2 != nil {
		return false
	}
	d, m := x-y, max(x, -x, 1e-9)
	return d <= m*1e-13 && -d <= m*1e-13
}

// TestBesideMariaDB compares random expressions. GODWIT_EXPRS is how many, GODWIT_SEED the first
// seed.
func TestBesideMariaDB(t *testing.T) {
	db := connect(t)
	n, _ := strconv.Atoi(os.Getenv("GODWIT_EXPRS"))
	if n == 0 {
		n = 2000
	}
	seed, _ := strconv.ParseInt(os.Getenv("GODWIT_SEED"), 10, 64)
	known := differences(t)
	bad := 0
	for i := range n {
		g := &generator{rand.New(rand.NewSource(seed + int64(i)))}
		text := []func(int) string{g.num, g.cond, g.text, g.date}[g.r.Intn(4)](1 + g.r.Intn(3))
		got := evaluate(text, sql2.Collation_utf8mb4_general_ci, testEnv(), false)
		want := ask(db, text)
		if same(got, want) || known[text] {
			continue
		}
		if bad++; bad <= 40 {
			t.Errorf("seed %d: %s\n  here %s\n  MariaDB %s", seed+int64(i), text, got, want)
		}
	}
	t.Logf("%d expressions, %d differences", n, bad)
}

// differences are expressions whose answers may differ, with reasons in the file.
func differences(t *testing.T) map[string]bool {
	t.Helper()
	f, err := os.Open("testdata/differences")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string]bool{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if line := s.Text(); line != "" && !strings.HasPrefix(line, "#") {
			out[line] = true
		}
	}
	return out
}
