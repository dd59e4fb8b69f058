package tpch

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// gen makes the rows of all tables at a scale.
type gen struct {
	scale float64
	text  pool
}

// newGen makes rows by a seed: the same seed, the same rows.
func newGen(scale float64) *gen { return &gen{scale: scale, text: newPool(stream(0), 4<<20)} }

// stream is the source of a table's random numbers.
func stream(table uint64) *rand.Rand { return rand.New(rand.NewPCG(19_920_101, table)) }

// count is how many rows a table with so many at scale 1 has.
func (g *gen) count(one int) int { return max(1, int(float64(one)*g.scale+0.5)) }

func (g *gen) suppliers() int { return g.count(10_000) }
func (g *gen) parts() int     { return g.count(200_000) }
func (g *gen) customers() int { return g.count(150_000) }
func (g *gen) orders() int    { return g.count(1_500_000) }

var regionNames = []string{"AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST"}

// nationNames have the number of their region behind them.
var nationNames = strings.Split("ALGERIA0,ARGENTINA1,BRAZIL1,CANADA1,EGYPT4,ETHIOPIA0,FRANCE3,GERMANY3,INDIA2,INDONESIA2,IRAN4,"+
	"IRAQ4,JAPAN2,JORDAN4,KENYA0,MOROCCO0,MOZAMBIQUE0,PERU1,CHINA2,ROMANIA3,SAUDI ARABIA4,VIETNAM2,RUSSIA3,"+
	"UNITED KINGDOM3,UNITED STATES1", ",")

var colors = strings.Fields(`almond antique aquamarine azure beige bisque black blanched blue blush brown burlywood
	burnished chartreuse chiffon chocolate coral cornflower cornsilk cream cyan dark deep dim dodger drab firebrick
	floral forest frosted gainsboro ghost goldenrod green grey honeydew hot indian ivory khaki lace lavender lawn
	lemon light lime linen magenta maroon medium metallic midnight mint misty moccasin navajo navy olive orange orchid
	pale papaya peach peru pink plum powder puff purple red rose rosy royal saddle salmon sandy seashell sienna sky
	slate smoke snow spring steel tan thistle tomato turquoise violet wheat white yellow`)

var (
	typeWords = [3][]string{{"STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO"},
		{"ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED"}, {"TIN", "NICKEL", "BRASS", "STEEL", "COPPER"}}
	containerWords = [2][]string{{"SM", "LG", "MED", "JUMBO", "WRAP"}, {"CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM"}}
	segments       = []string{"AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD"}
	priorities     = []string{"1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW"}
	instructs      = []string{"DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"}
	modes          = []string{"REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB"}
)

func pick(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

// address is a text of random characters, of 10 to 40 of them.
func address(r *rand.Rand) string {
	const chars = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ, "
	b := make([]byte, 10+r.IntN(31))
	for i := range b {
		b[i] = chars[r.IntN(len(chars))]
	}
	b[0], b[len(b)-1] = 'a', 'z' // no blanks at the ends: they are compared
	return string(b)
}

func phone(r *rand.Rand, nation int) string {
	return fmt.Sprintf("%d-%03d-%03d-%04d", nation+10, 100+r.IntN(900), 100+r.IntN(900), 1000+r.IntN(9000))
}

// money is an amount in cents as text.
func money(cents int) string {
	sign := ""
	if cents < 0 {
		sign, cents = "-", -cents
	}
	return fmt.Sprintf("%s%d.%02d", sign, cents/100, cents%100)
}

func between(r *rand.Rand, lo, hi int) int { return lo + r.IntN(hi-lo+1) }

// sink takes the rows of a table, whose fields are separated by tabs.
type sink func(row string) error

// row joins fields.
func row(fields ...any) string {
	var b strings.Builder
	for i, f := range fields {
		if i > 0 {
			b.WriteByte('\t')
		}
		fmt.Fprint(&b, f)
	}
	return b.String()
}

func (g *gen) region(out sink) error {
	r := stream(1)
	for i, n := range regionNames {
		if err := out(row(i, n, g.text.cut(r, 31, 115))); err != nil {
			return err
		}
	}
	return nil
}

func (g *gen) nation(out sink) error {
	r := stream(2)
	for i, n := range nationNames {
		name, region := n[:len(n)-1], n[len(n)-1:]
		if err := out(row(i, name, region, g.text.cut(r, 31, 114))); err != nil {
			return err
		}
	}
	return nil
}

func (g *gen) supplier(out sink) error {
	r := stream(3)
	n := g.suppliers()
	// Five of 10,000 suppliers have complaints, five recommendations: one of each at least.
	marked := r.Perm(n)
	k := max(1, n*5/10_000)
	said := map[int]string{}
	for i := range k {
		said[marked[i%n]], said[marked[(k+i)%n]] = "Complaints", "Recommends"
	}
	for i := range n {
		nation := r.IntN(25)
		comment := g.text.cut(r, 25, 100)
		if w := said[i]; w != "" {
			gap := g.text.cut(r, 1, 25)
			comment = comment[:len(comment)/3] + "Customer " + strings.TrimSpace(gap) + w + comment[len(comment)/3:]
			comment = comment[:min(len(comment), 101)]
		}
		if err := out(row(i+1, fmt.Sprintf("Supplier#%09d", i+1), address(r), nation, phone(r, nation),
			money(between(r, -99_999, 999_999)), comment)); err != nil {
			return err
		}
	}
	return nil
}

// retail is the price of a part in cents.
func retail(part int) int { return 90_000 + part/10%20_001 + 100*(part%1000) }

func (g *gen) part(out sink) error {
	r := stream(4)
	for i := 1; i <= g.parts(); i++ {
		var name []string
		for _, c := range r.Perm(len(colors))[:5] {
			name = append(name, colors[c])
		}
		m := between(r, 1, 5)
		if err := out(row(i, strings.Join(name, " "), fmt.Sprintf("Manufacturer#%d", m), fmt.Sprintf("Brand#%d%d", m, between(r, 1, 5)),
			pick(r, typeWords[0])+" "+pick(r, typeWords[1])+" "+pick(r, typeWords[2]), between(r, 1, 50),
			pick(r, containerWords[0])+" "+pick(r, containerWords[1]), money(retail(i)), g.text.cut(r, 5, 22))); err != nil {
			return err
		}
	}
	return nil
}

// supplierOf is the i-th (from 0) of the four suppliers of a part.
func (g *gen) supplierOf(part, i int) int {
	s := g.suppliers()
	return (part+i*(s/4+(part-1)/s))%s + 1
}

func (g *gen) partsupp(out sink) error {
	r := stream(5)
	for p := 1; p <= g.parts(); p++ {
		for i := range 4 {
			if err := out(row(p, g.supplierOf(p, i), between(r, 1, 9999), money(between(r, 100, 100_000)),
				g.text.cut(r, 49, 198))); err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *gen) customer(out sink) error {
	r := stream(6)
	for i := 1; i <= g.customers(); i++ {
		nation := r.IntN(25)
		if err := out(row(i, fmt.Sprintf("Customer#%09d", i), address(r), nation, phone(r, nation),
			money(between(r, -99_999, 999_999)), pick(r, segments), g.text.cut(r, 29, 116))); err != nil {
			return err
		}
	}
	return nil
}

// Days are counted from 1992-01-01.
const (
	lastOrder = 2405 // 1998-12-31 less 151 days
	today     = 1263 // 1995-06-17, CURRENTDATE of the specification
)

var days = func() []string {
	out := make([]string, lastOrder+1+121+30)
	first := time.Date(1992, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range out {
		out[i] = first.AddDate(0, 0, i).Format(time.DateOnly)
	}
	return out
}()

// order is an order with its lines.
type order struct {
	row   string
	lines []string
}

// ordersAndLines makes all orders, each with its lines.
func (g *gen) ordersAndLines(out func(order) error) error {
	r := stream(7)
	for i := range g.orders() {
		if err := out(g.order(r, i/8*32+i%8+1)); err != nil {
			return err
		}
	}
	return nil
}

// order makes one order. A third of the customers has none.
func (g *gen) order(r *rand.Rand, key int) order {
	cust := between(r, 1, g.customers())
	for cust%3 == 0 {
		cust = between(r, 1, g.customers())
	}
	date := r.IntN(lastOrder + 1)
	var o order
	total, open := 0, 0
	n := between(r, 1, 7)
	for i := range n {
		text, price, isOpen := g.line(r, key, i+1, date)
		o.lines = append(o.lines, text)
		total += price
		if isOpen {
			open++
		}
	}
	status := "P"
	switch open {
	case 0:
		status = "F"
	case n:
		status = "O"
	}
	o.row = row(key, cust, status, money(total), days[date], pick(r, priorities),
		fmt.Sprintf("Clerk#%09d", between(r, 1, g.count(1000))), 0, g.text.cut(r, 19, 78))
	return o
}

// line makes a line of an order of a day; price is what the customer pays, in cents.
func (g *gen) line(r *rand.Rand, key, number, date int) (text string, price int, open bool) {
	part := between(r, 1, g.parts())
	supp := g.supplierOf(part, r.IntN(4))
	quantity, discount, tax := between(r, 1, 50), r.IntN(11), r.IntN(9)
	extended := quantity * retail(part)
	ship := date + between(r, 1, 121)
	commit, receipt := date+between(r, 30, 90), ship+between(r, 1, 30)
	flag, status := "N", "F"
	if receipt <= today {
		flag = pick(r, []string{"R", "A"})
	}
	if ship > today {
		status = "O"
	}
	text = row(key, part, supp, number, money(100*quantity), money(extended), money(discount), money(tax), flag, status,
		days[ship], days[commit], days[receipt], pick(r, instructs), pick(r, modes), g.text.cut(r, 10, 43))
	return text, extended * (100 + tax) / 100 * (100 - discount) / 100, status == "O"
}
