package oneshot

import (
	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/session"
)

// Explain is what EXPLAIN says of a statement as a program, behind where it runs: whether it is one
// by itself, or may be a part of one, and if not, why. Empty: the session's transactions lock.
func (r *Runner) Explain(ctx *sql.Context, s *session.Session, query string) string {
	if r.Fast.Off || !s.Crosses() {
		return ""
	}
	call := r.Fast.Whole(s, nil, query, nil)
	if call == nil {
		return "; no part of a program: " + unrecognised(query)
	}
	x, why := call.Piece(ctx)
	switch {
	case why != "":
		return "; no part of a program: " + why
	case call.Many() && r.far(x.Keys) && !s.Explicit(ctx):
		return "; a program: written at one slot in all regions, without locks"
	}
	return "; may be a part of a program: BEGIN, such statements and COMMIT in one packet, or a CALL of them"
}

// far reports whether a row is at home in another region.
func (r *Runner) far(keys []base.Key) bool {
	for _, k := range keys {
		if _, home := r.Fast.Env.DB.Owner(k); home != 0 && home != r.Fast.Env.DB.Region() {
			return true
		}
	}
	return false
}
