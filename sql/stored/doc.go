// Package stored makes, changes, drops and shows stored functions, and says in information_schema
// which routines there are. go-mysql-server's grammar does not know them. Package program parses
// their texts, package ddl keeps them, and package query calls them.
//
// A function is kept with its text, and with what it was made under: its definer, its sql_mode, and
// the character set and collations of that time. SHOW CREATE FUNCTION puts the head together anew,
// as MySQL does; the body is what was written.
package stored
