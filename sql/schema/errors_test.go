package schema

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/base"
)

// TestClientErrors: each kind of error of the layers below has a number that says what a client may
// do, also when it is wrapped.
func TestClientErrors(t *testing.T) {
	for code, want := range map[base.Code]struct {
		num   int
		state string
	}{
		base.CodeAborted: {1213, "40001"}, base.CodeSchemaChanged: {1213, "40001"},
		base.CodeOverloaded: {1213, "40001"}, base.CodeUnavailable: {1213, "40001"},
		base.CodeLockTimeout: {1205, "HY000"}, base.CodeExists: {1062, "23000"}, base.CodeCanceled: {1317, "70100"},
		base.CodeAmbiguous: {1105, "HY000"},
		base.CodeTooOld:    {1105, "HY000"}, base.CodeInvalid: {1105, "HY000"}, base.CodeCorrupt: {1105, "HY000"},
		base.CodeOther: {1105, "HY000"},
	} {
		for _, err := range []error{base.Errorf(code, "what happened"),
			fmt.Errorf("around it: %w", base.Errorf(code, "what happened"))} {
			var me *mysql.SQLError
			if !errors.As(ClientError(err), &me) || me.Num != want.num || me.State != want.state {
				t.Errorf("%v is %v, want %d (%s)", err, ClientError(err), want.num, want.state)
			}
		}
		if got := EndsTxn(base.Errorf(code, "x")); got != (base.Retryable(base.Errorf(code, "x")) ||
			code == base.CodeAmbiguous) {
			t.Errorf("%v ends the transaction: %v", code, got)
		}
	}
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, fmt.Errorf("while reading: %w", context.Canceled)} {
		var me *mysql.SQLError
		if !errors.As(ClientError(err), &me) || me.Num != 1317 {
			t.Errorf("%v is %v", err, ClientError(err))
		}
	}
	other := errors.New("the engine's")
	if ClientError(nil) != nil || ClientError(other) != other {
		t.Error("what is no error of ours has changed")
	}
}

// TestNumbered: errors of the engine without a number get MySQL's, by kind and by text.
func TestNumbered(t *testing.T) {
	for _, k := range []struct {
		text  string
		num   int
		state string
	}{
		{"syntax error at position 7 near 'x'", 1064, "42000"},
		{sql.ErrColumnNotFound.New("x").Error(), 1054, "42S22"},
		{sql.ErrTableColumnNotFound.New("t", "x").Error(), 1054, "42S22"},
		{sql.ErrTableAlreadyExists.New("t").Error(), 1050, "42S01"},
		{sql.ErrDuplicateKey.New("k").Error(), 1061, "42000"},
		{sql.ErrCheckConstraintViolated.New("c").Error(), 3819, "HY000"},
		{sql.ErrPrivilegeCheckFailed.New("'u'@'h'").Error(), 1142, "42000"},
		{sql.ErrUnknownSystemVariable.New("v").Error(), 1193, "HY000"},
		{sql.ErrSystemVariableReadOnly.New("v").Error(), 1238, "HY000"},
		{"Access denied for user 'u'@'h' to table 't'", 1142, "42000"},
		{"Field 'f' doesn't have a default value", 1364, "HY000"},
		{"string 'a\nb' is too large for column 'c'", 1406, "22001"},
		{"300 out of range for tinyint", 1264, "22003"},
		{"Out of range value for column of Decimal type ", 1264, "22003"},
		{"cannot drop table `p` as it is referenced in foreign key `fk`", 3730, "HY000"},
		{"SAVEPOINT s does not exist", 1305, "42000"},
		{"a text that says SAVEPOINT s does not exist", 1105, "HY000"},
		{"anything else", 1105, "HY000"},
	} {
		if got := Numbered(mysql.NewSQLError(1105, "HY000", "%s", k.text)); got.Num != k.num ||
			got.State != k.state || got.Message != k.text {
			t.Errorf("%q: %d (%s) %q", k.text, got.Num, got.State, got.Message)
		}
	}
	// A number that is there stays, and gets its SQLSTATE.
	for num, state := range map[int]string{1146: "42S02", 1452: "23000", 1242: "21000", 1792: "25006", 1091: "42000"} {
		if got := Numbered(mysql.NewSQLError(num, "HY000", "words")); got.Num != num || got.State != state {
			t.Errorf("%d: %d (%s)", num, got.Num, got.State)
		}
	}
	if e := mysql.NewSQLError(1644, "45000", "anything"); Numbered(e) != e {
		t.Error("an error of a SIGNAL has changed")
	}
}

// TestDuplicateKeys: the words that clients parse, and the row for REPLACE.
func TestDuplicateKeys(t *testing.T) {
	tab := indexedTable(t)
	row, old := sql.Row{int32(1), "a-b", int32(30), nil}, sql.Row{int32(1), "a-b", int32(31), nil}
	for _, k := range []struct {
		x    *Index
		want string
	}{{nil, "Duplicate entry '1-a-b' for key 't.PRIMARY'"}, {tab.Indexes[1], "Duplicate entry '30' for key 't.uniq'"},
		{tab.Indexes[2], "Duplicate entry 'NULL' for key 't.plain'"}} {
		text, err := DuplicateKey(tab, k.x, row, old)
		if text != k.want {
			t.Errorf("%q, want %q", text, k.want)
		}
		if !sql.ErrUniqueKeyViolation.Is(err) && !sql.ErrPrimaryKeyViolation.Is(err) {
			t.Errorf("%v is no duplicate for the engine", err)
		}
	}
}
