package fulltext

import (
	"errors"
	"strings"
	"testing"

	"github.com/dolthub/vitess/go/mysql"
)

// A search is a text of a user, of any length: what would take too much stack, or too many
// look-ups, is refused before it does.
func TestTooMuch(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("(", n) + "word" + strings.Repeat(")", n) }
	for _, c := range []struct {
		name, text string
		boolean    bool
		number     int // 0: it is taken
	}{
		{"deep enough", deep(mostDeep), true, 0},
		{"too deep", deep(mostDeep + 1), true, 1436},
		{"side by side", strings.Repeat("(word)", mostWords), true, 0},
		{"never closed", strings.Repeat("(", 16<<20), true, 1436},
		{"parentheses are blanks", deep(mostDeep + 1), false, 0},
		{"many words", strings.Repeat("word ", mostWords), false, 0},
		{"too many words", strings.Repeat("word ", mostWords+1), false, 1235},
		{"too many terms", strings.Repeat("+word ", mostWords+1), true, 1235},
		{"too long a phrase", `"` + strings.Repeat("word ", mostWords+1) + `"`, true, 1235},
		{"too many words, then too deep", strings.Repeat("word ", mostWords+1) + deep(mostDeep+1), true, 1235},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(c.text, Mode{Boolean: c.boolean})
			var me *mysql.SQLError
			switch {
			case c.number == 0 && err != nil:
				t.Fatalf("refused: %v", err)
			case c.number != 0 && (!errors.As(err, &me) || me.Num != c.number):
				t.Fatalf("error %v, want number %d", err, c.number)
			}
		})
	}
}
