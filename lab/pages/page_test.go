package pages

import (
	"regexp"
	"strings"
)

// A block is a fenced block of a page.
type block struct {
	line       int // of what follows the opening fence, from 1
	kind, text string
	from, to   int // where the text is in the page
}

var fence = regexp.MustCompile("(?ms)^```(sql|text|csv)\n(.*?)^```$")

// blocks are those of a page, in order.
func blocks(page string) (out []block) {
	for _, m := range fence.FindAllStringSubmatchIndex(page, -1) {
		out = append(out, block{1 + strings.Count(page[:m[4]], "\n"), page[m[2]:m[3]], page[m[4]:m[5]], m[4], m[5]})
	}
	return out
}

// A step is a statement, and who sends it, and where.
type step struct {
	line       int
	user, at   string
	text       string
	later      bool // it is repeated until it shows what the page says
	concurrent bool // the next step does not wait for its end
}

var (
	who       = regexp.MustCompile(`^-- (?:as (\w+))? ?(?:in ([\w-]+))?$`)
	delimiter = regexp.MustCompile(`^DELIMITER (\S+)$`)
)

// sender is who sends the statements to come.
type sender struct{ user, at string }

// steps cuts a block up; from is who sends its first statement, and becomes who sends the next one.
func (b block) steps(from *sender) (out []step) {
	end, s := ";", step{}
	for i, line := range strings.Split(strings.TrimRight(b.text, "\n"), "\n") {
		if s.text == "" {
			s.line = b.line + i
			if m := who.FindStringSubmatch(line); m != nil && m[1]+m[2] != "" {
				if m[1] != "" {
					from.user = m[1]
				}
				if m[2] != "" {
					from.at = m[2]
				}
				continue
			}
			if m := delimiter.FindStringSubmatch(line); m != nil {
				end = m[1]
				continue
			}
			switch line {
			case "-- a moment later":
				s.later = true
				continue
			case "-- at the same time:":
				s.concurrent = true
				continue
			case "":
				continue
			}
		}
		s.text += line + "\n"
		// A remark may stand behind the end of a statement.
		code, _, _ := strings.Cut(line, " -- ")
		if code = strings.TrimRight(code, " "); strings.HasSuffix(code, end) && !strings.HasPrefix(code, "--") {
			s.text = strings.TrimSuffix(s.text, line+"\n") + strings.TrimSuffix(code, end)
			s.user, s.at = from.user, from.at
			out = append(out, s)
			s = step{}
		}
	}
	if strings.TrimSpace(s.text) != "" {
		out = append(out, step{line: s.line, text: ""}) // a statement without an end
	}
	return out
}

// shows reports whether what a client got is what the page says.
func shows(page, got string) bool {
	words := func(s string) string {
		s = strings.Join(strings.Fields(s), " ")
		if strings.Trim(s, "- ") == "" && strings.Contains(s, "-") {
			s = regexp.MustCompile("-+").ReplaceAllString(s, "-") // a rule is as wide as its column
		}
		return s
	}
	var re strings.Builder
	re.WriteString(`(?s)\A`)
	for _, line := range strings.Split(strings.TrimRight(page, "\n"), "\n") {
		if line = words(line); line == "..." {
			re.WriteString(`(?:[^\n]*\n)*?`)
			continue
		}
		parts := strings.Split(line, "...")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		re.WriteString(strings.Join(parts, `[^\n]*?`) + "\n")
	}
	re.WriteString(`\z`)
	var have strings.Builder
	for _, line := range strings.Split(strings.TrimRight(got, "\n"), "\n") {
		have.WriteString(words(line) + "\n")
	}
	return regexp.MustCompile(re.String()).MatchString(have.String())
}
