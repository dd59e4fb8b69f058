package program

import "github.com/godwitdb/godwit/sql/token"

// failing is a body that cannot be mistaken for the right one.
const failing = "SIGNAL SQLSTATE '0A000' SET MESSAGE_TEXT = 'only our own engine runs this program'"

// Skeleton is the text of a CREATE with another body, for a parser that knows the head and not what
// is in the body. ok is false if it is no text of a program.
func Skeleton(text string, m token.Mode) (head string, p *Program, ok bool) {
	p, err := Parse(text, m)
	if err != nil {
		return "", nil, false
	}
	return text[:p.From] + failing, p, true
}
