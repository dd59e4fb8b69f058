package digest

// Split takes the first statement of a text apart: the text with ? for its literals, as [Redact]
// has it but whole, and the literals in their order, as they stand there. A placeholder of a
// prepared statement is "?" among them, and what follows an @ is one, too. NULL stays in the text.
// It appends to what it is given, so that who calls again and again allocates nothing; literals are
// parts of q.
func Split(q string, mode Mode, text []byte, literals []string) ([]byte, []string) {
	s := scanners.Get().(*scanner)
	defer func() {
		s.q = ""
		scanners.Put(s)
	}()
	s.out = s.out[:0]
	s.begin(q, mode)
	for {
		start := s.at
		s.hides, s.skips = false, false
		if !s.next() {
			return text, literals
		}
		switch {
		case s.hides && !isNull(q[start:s.at]):
			text = append(text, '?')
			literals = append(literals, q[start:s.at])
		case s.skips:
			text = append(text, ' ')
		default:
			text = append(text, q[start:s.at]...)
		}
	}
}

func isNull(t string) bool {
	return len(t) == 4 && t[0]|0x20 == 'n' && t[1]|0x20 == 'u' && t[2]|0x20 == 'l' && t[3]|0x20 == 'l'
}
