package server

import "testing"

// TestSetPassword: SET PASSWORD is an ALTER USER: of oneself, or of somebody else.
func TestSetPassword(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE USER u IDENTIFIED BY 'first'")
	exec(t, c, "SET PASSWORD FOR u = 'it''s'")
	expectErr(t, openDSN(t, "u:first@tcp("+s.Addr().String()+")/"), 1045, "SELECT 1")
	u := openDSN(t, "u:it's@tcp("+s.Addr().String()+")/")
	exec(t, u, "SET PASSWORD = 'own'")
	expectErr(t, u, 1227, "SET PASSWORD FOR 'root'@'%' = 'x'")
	own := openDSN(t, "u:own@tcp("+s.Addr().String()+")/")
	expect(t, own, "SELECT CURRENT_USER()", "u@%")

	// names and passwords with what has a meaning in a text
	exec(t, c, `CREATE USER 'b\\' IDENTIFIED BY 'first'`)
	b := openDSN(t, `b\:first@tcp(`+s.Addr().String()+")/")
	exec(t, b, `SET PASSWORD = 'p\\w''\'"'`)
	expectErr(t, openDSN(t, `b\:first@tcp(`+s.Addr().String()+")/"), 1045, "SELECT 1")
	expect(t, openDSN(t, `b\:p\w''"@tcp(`+s.Addr().String()+")/"), "SELECT CURRENT_USER()", `b\@%`)
}
