package tpch

import (
	"math/rand/v2"
	"strings"
)

// weighted are words, each with how often it is drawn.
type weighted struct {
	words []string
	upto  []int
}

// weigh reads "word|word=weight|...": the weight of a word without one is 1.
func weigh(s string) weighted {
	var w weighted
	total := 0
	for _, f := range strings.Split(s, "|") {
		word, n, ok := strings.Cut(f, "=")
		k := 1
		if ok {
			k = 0
			for _, d := range n {
				k = 10*k + int(d-'0')
			}
		}
		total += k
		w.words, w.upto = append(w.words, word), append(w.upto, total)
	}
	return w
}

func (w weighted) draw(r *rand.Rand) string {
	k := r.IntN(w.upto[len(w.upto)-1])
	for i, u := range w.upto {
		if k < u {
			return w.words[i]
		}
	}
	return ""
}

// The words of the pseudo text of clause 4.2.2.14.
var (
	nouns = weigh("packages=40|requests=40|accounts=40|deposits=40|foxes=20|ideas=20|theodolites=20|pinto beans=20|" +
		"instructions=20|dependencies=10|excuses=10|platelets=10|asymptotes=10|courts=5|dolphins=5|multipliers|" +
		"sauternes|warthogs|frets|dinos|attainments|somas|Tiresias|patterns|forges|braids|hockey players|frays|" +
		"warhorses|dugouts|notornis|epitaphs|pearls|tithes|waters|orbits|gifts|sheaves|depths|sentiments|decoys|" +
		"realms|pains|grouches|escapades")
	verbs = weigh("sleep=20|wake=20|are=20|cajole=20|haggle=20|nag=10|use=10|boost=10|affix=5|detect=5|integrate=5|" +
		"maintain|nod|was|lose|sublate|solve|thrash|promise|engage|hinder|print|x-ray|breach|eat|grow|impress|mold|" +
		"poach|serve|run|dazzle|snooze|doze|unwind|kindle|play|hang|believe|doubt")
	adjectives = weigh("special=20|pending=20|unusual=20|express=20|furious|sly|careful|blithe|quick|fluffy|slow|quiet|" +
		"ruthless|thin|close|dogged|daring|brave|stealthy|permanent|enticing|idle|busy|regular=50|final=40|ironic=40|" +
		"even=30|bold=20|silent=10")
	adverbs = weigh("sometimes|always|never|furiously=50|slyly=50|carefully=50|blithely=40|quickly=30|fluffily=20|slowly|" +
		"quietly|ruthlessly|thinly|closely|doggedly|daringly|bravely|stealthily|permanently|enticingly|idly|busily|" +
		"regularly|finally|ironically|evenly|boldly|silently")
	prepositions = weigh("about=50|above=50|according to=50|across=50|after=50|against=40|along=40|alongside of=30|" +
		"among=30|around=20|at=10|atop|before|behind|beneath|beside|besides|between|beyond|by|despite|during|except|" +
		"for|from|in place of|inside|instead of|into|near|of|on|outside|over|past|since|through|throughout|to|toward|" +
		"under|until|up|upon|whithout|with|within")
	auxiliaries = weigh("do|may|might|shall|will|would|can|could|should|ought to|must|will have to|shall have to|" +
		"could have to|should have to|must have to|need to|try to")
	terminators = weigh(".=50|;|:|?|!|--")
	sentences   = weigh("NVT=3|NVPT=3|NVNT=3|NPVNT|NPVPT")
	nounPhrases = weigh("n=10|jn=20|j,jn=10|djn=50")
	verbPhrases = weigh("v=30|xv|vd=40|xvd")
)

// sentence writes a sentence of the grammar.
func sentence(b *strings.Builder, r *rand.Rand) {
	for _, c := range sentences.draw(r) {
		switch c {
		case 'N':
			phrase(b, r, nounPhrases.draw(r))
		case 'V':
			phrase(b, r, verbPhrases.draw(r))
		case 'P':
			phrase(b, r, "p")
			b.WriteString("the ")
			phrase(b, r, nounPhrases.draw(r))
		case 'T':
			s := strings.TrimRight(b.String(), " ")
			b.Reset()
			b.WriteString(s)
			b.WriteString(terminators.draw(r))
			b.WriteByte(' ')
		}
	}
}

func phrase(b *strings.Builder, r *rand.Rand, form string) {
	lists := map[rune]weighted{'n': nouns, 'v': verbs, 'j': adjectives, 'd': adverbs, 'x': auxiliaries, 'p': prepositions}
	for _, c := range form {
		if c == ',' {
			s := strings.TrimRight(b.String(), " ")
			b.Reset()
			b.WriteString(s + ", ")
			continue
		}
		b.WriteString(lists[c].draw(r))
		b.WriteByte(' ')
	}
}

// pool is the text that comments are cut out of. That of dbgen has 300 MB.
type pool string

func newPool(r *rand.Rand, size int) pool {
	var all strings.Builder
	for all.Len() < size {
		var b strings.Builder
		sentence(&b, r)
		all.WriteString(b.String())
	}
	return pool(all.String()[:size])
}

// cut is a piece of the text, of a length from lo to hi.
func (p pool) cut(r *rand.Rand, lo, hi int) string {
	n := lo + r.IntN(hi-lo+1)
	at := r.IntN(len(p) - n)
	return string(p[at : at+n])
}
