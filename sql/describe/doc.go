// Package describe words the definitions of tables as MySQL 8 does: SHOW CREATE TABLE, SHOW
// COLUMNS, SHOW INDEX, and what information_schema says of columns and indexes. Programs parse
// these texts, so they are MySQL's to the byte. It asks nobody: all is in the descriptor of the
// table, but for the next AUTO_INCREMENT value and the clause of the locality, which the caller
// knows.
package describe
