package rights

import (
	"errors"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/mysql_db"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/schema"
)

// MayCall refuses a procedure, or a function, that the user may not execute, or the definer in
// whose name something is executed (1370).
func MayCall(ctx *sql.Context, db *mysql_db.MySQLDb, database, name string, procedure bool) error {
	if !db.Enabled() {
		return nil
	}
	if Of(ctx, db).Database(database, sql.PrivilegeType_Execute) {
		return nil
	}
	on := sql.PrivilegeCheckSubject{Database: database, Routine: name, IsProcedure: procedure}
	if db.RoutineAdminCheck(ctx, sql.NewPrivilegedOperation(on, sql.PrivilegeType_Execute)) {
		return nil
	}
	return routineRefusal(ctx, "execute", database+"."+name)
}

// Named makes a refusal of what a program does name the program's definer instead of the user.
func Named(ctx *sql.Context, err error, definer schema.Account) error {
	var me *mysql.SQLError
	if errors.As(err, &me) && (me.Num == 1142 || me.Num == 1143 || me.Num == 1044 || me.Num == 1370) {
		return renamed(ctx, me, definer)
	}
	return err
}

// MayFire refuses triggers whose definer, whose rights these are, may not have them run: it needs
// TRIGGER for the table, SELECT for the columns of the row that the trigger reads, and UPDATE for
// those that it sets.
func (s Set) MayFire(ctx *sql.Context, definer schema.Account, database, table string, reads, sets []string) error {
	if !s.Table(database, table, sql.PrivilegeType_Trigger) {
		return renamed(ctx, Refusal(ctx, "TRIGGER", table), definer)
	}
	for _, c := range reads {
		if !s.Column(database, table, c, sql.PrivilegeType_Select) {
			return renamed(ctx, ColumnRefusal(ctx, "SELECT", c, table), definer)
		}
	}
	for _, c := range sets {
		if !s.Column(database, table, c, sql.PrivilegeType_Update) {
			return renamed(ctx, ColumnRefusal(ctx, "UPDATE", c, table), definer)
		}
	}
	return nil
}
