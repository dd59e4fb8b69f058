package rewrite

import (
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
)

// TestComments: what is for MariaDB alone is a comment.
func TestComments(t *testing.T) {
	for q, want := range map[string]string{
		"/*M!999999\\- enable the sandbox mode */ \n\n/*M!100616 SET x=1 */ SELECT 1": "/*999999\\- enable the " +
			"sandbox mode */ \n\n/*100616 SET x=1 */ SELECT 1",
		"SELECT '/*M!1 */'":   "SELECT '/*M!1 */'",
		"/*M!100616 SELECT":   "/*M!100616 SELECT",
		"/*!40101 SET a=1 */": "/*!40101 SET a=1 */",
	} {
		if got := plainComments(q); got != want {
			t.Errorf("%q became %q", q, got)
		}
	}
	for q, want := range map[string]string{
		"/*!50003 CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET NEW.s = '*/ /*!1 \\' /*!' */": "CREATE TRIGGER " +
			"x BEFORE INSERT ON t FOR EACH ROW SET NEW.s = '*/ /*!1 \\' /*!'",
		"/*!50001 CREATE */ /*!50013 DEFINER=`a`@`*/` */\n/*!50001 VIEW v AS SELECT 1 " +
			"/* one */*/": "CREATE   DEFINER=`a`@`*/` \n VIEW v AS SELECT 1 /* one */",
		"SELECT /*!40001 SQL_NO_CACHE */ 1": "SELECT /*!40001 SQL_NO_CACHE */ 1",
	} {
		if got := unwrap(q); got != want {
			t.Errorf("%q became %q", q, got)
		}
	}
}

// TestSetPasswordOf: the name of the client's account is the name in the statement that is made,
// whatever characters it has; the password is what the client wrote.
func TestSetPasswordOf(t *testing.T) {
	for me, want := range map[sql.Client]string{
		{User: "a", Address: "%"}:               `ALTER USER 'a'@'%' IDENTIFIED BY 'x\\y''\''`,
		{User: `a\`, Address: "%"}:              `ALTER USER 'a\\'@'%' IDENTIFIED BY 'x\\y''\''`,
		{User: `it's`, Address: `::1`}:          `ALTER USER 'it''s'@'::1' IDENTIFIED BY 'x\\y''\''`,
		{User: `\' ACCOUNT LOCK`, Address: "%"}: `ALTER USER '\\'' ACCOUNT LOCK'@'%' IDENTIFIED BY 'x\\y''\''`,
	} {
		if got := SetPassword(`SET PASSWORD = 'x\\y''\''`, me); got != want {
			t.Errorf("%q: %s, want %s", me.User, got, want)
		}
	}
}
