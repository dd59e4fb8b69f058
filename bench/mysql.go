package bench

import (
	"database/sql"
	"fmt"

	_ "github.com/go-sql-driver/mysql" // the driver of openMySQL
)

// openMySQL connects as root without password to a server on loopback.
func openMySQL(port int, db string) (*sql.DB, error) {
	return sql.Open("mysql", fmt.Sprintf("root@tcp(127.0.0.1:%d)/%s", port, db))
}
