package charset

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/token"
)

// span is a part of a text, in bytes.
type span struct{ from, to int }

// introduced are the literals behind names of character sets.
func introduced(text string) (out []span) {
	if !strings.Contains(text, "_") {
		return nil
	}
	ts := token.Scan(text, token.Mode{})
	for i := 1; i < len(ts); i++ {
		if ts[i].Kind != token.String {
			continue
		}
		name := strings.ToLower(text[ts[i-1].From:ts[i-1].To])
		if !strings.HasPrefix(name, "_") {
			continue
		}
		if _, err := sql.ParseCharacterSet(name[1:]); err == nil {
			out = append(out, span{ts[i].From, ts[i].To})
		}
	}
	return out
}
