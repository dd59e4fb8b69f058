package rewrite

import "testing"

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
