package shop

import (
	"bytes"
	"strconv"

	"tare/internal/sys/sql/lex"
	"tare/internal/sys/sql/trace"
)

// The statements, with ? for values.
const (
	allCategories = "SELECT id, name FROM category ORDER BY id"
	newest        = "SELECT id, name, price FROM item WHERE added >= ? ORDER BY added DESC, id LIMIT 20"
	oneCategory   = "SELECT id, name FROM category WHERE id = ?"
	ofCategory    = "SELECT COUNT(*), MIN(price), MAX(price) FROM item WHERE category = ?"
	cheapest      = "SELECT id, name, price, stock FROM item WHERE category = ? AND price >= ? " +
		"ORDER BY price, id LIMIT 20"
	oneItem    = "SELECT id, category, name, price, stock, description FROM item WHERE id = ?"
	alsoBought = "SELECT i.id, i.name, COUNT(*) AS times FROM order_line a JOIN order_line b " +
		"ON b.orders = a.orders AND b.item <> a.item JOIN item i ON i.id = b.item " +
		"WHERE a.item = ? AND a.orders BETWEEN ? AND ? GROUP BY i.id, i.name ORDER BY COUNT(*) DESC, i.id LIMIT 5"
	search = "SELECT id, name, price, description FROM item WHERE id BETWEEN ? AND ? AND description LIKE ? " +
		"ORDER BY id LIMIT 20"
	byEmail   = "SELECT id, name, city FROM customer WHERE email = ?"
	hisOrders = "SELECT o.id, o.placed, l.number, i.name, l.quantity, l.price FROM orders o JOIN order_line l " +
		"ON l.orders = o.id JOIN item i ON i.id = l.item WHERE o.customer = ? ORDER BY o.id DESC, l.number LIMIT 50"
	spent = "SELECT COUNT(DISTINCT o.id), SUM(l.quantity * l.price) FROM orders o JOIN order_line l " +
		"ON l.orders = o.id WHERE o.customer = ?"
	revenue = "SELECT c.id, c.name, COUNT(DISTINCT o.customer), SUM(l.quantity * l.price) FROM orders o " +
		"JOIN order_line l ON l.orders = o.id JOIN item i ON i.id = l.item JOIN category c ON c.id = i.category " +
		"WHERE o.placed BETWEEN ? AND ? GROUP BY c.id, c.name ORDER BY c.id"
	neverSold = "SELECT id, name FROM item i WHERE category = ? AND NOT EXISTS (SELECT 1 FROM order_line l " +
		"WHERE l.item = i.id) ORDER BY id LIMIT 50"
)

// pages are the kinds of pages, with their number in 100 views.
var pages = []struct {
	views int
	show  func(*view)
}{{20, (*view).front}, {25, (*view).category}, {35, (*view).item}, {8, (*view).search}, {10, (*view).account},
	{2, (*view).report}}

// view is a page view, which is a session.
type view struct {
	*chance
	shop Shop
	add  func(*trace.Event) error
	err  error       // first error of add
	e    trace.Event // last event
	last uint32      // number of the last prepared statement
}

// Sessions calls add for each event, one session after the other; the times of sessions overlap. Fingerprints are not
// set. The event is valid until add returns.
func (s Shop) Sessions(add func(session uint64, e *trace.Event) error) error {
	v := &view{chance: s.chance(viewSeed), shop: s}
	at, number := int64(0), uint64(0)
	for i := range s.views() {
		at += int64(v.ExpFloat64() * 20_000) // 50 views a second
		v.e.At, v.last = at, 0
		v.add = func(e *trace.Event) error {
			e.Number = number
			if e.Op.Statement() {
				number++
			}
			return add(uint64(i)+1, e)
		}
		if v.page(); v.err != nil {
			return v.err
		}
	}
	return nil
}

// page adds the session of a random page.
func (v *view) page() {
	v.event(trace.Event{Op: trace.Connect})
	if v.shop.Dialect == lex.PostgreSQL {
		v.ask("SET NAMES 'UTF8'")
	} else {
		v.ask("SET NAMES utf8mb4")
	}
	for n, i := v.IntN(100), 0; ; i++ {
		if n -= pages[i].views; n < 0 {
			pages[i].show(v)
			break
		}
	}
	v.event(trace.Event{Op: trace.Quit})
}

func (v *view) front() {
	v.ask(allCategories)
	v.ask(newest, days-v.IntN(30))
	for range v.upTo(4) {
		v.ask(oneItem, v.chance.item())
	}
}

func (v *view) category() {
	id := v.upTo(v.shop.categories())
	v.ask(oneCategory, id)
	v.ask(ofCategory, id)
	v.ask(cheapest, id, v.IntN(50_000))
	if v.IntN(4) == 0 {
		v.ask(neverSold, id)
	}
}

// item also uses a prepared statement.
func (v *view) item() {
	id, half := v.chance.item(), v.shop.orders()/2
	v.ask(oneItem, id)
	from := v.upTo(half)
	v.ask(alsoBought, id, from, from+half)
	prepared := v.prepare(oneItem)
	for range v.upTo(5) {
		v.execute(prepared, oneItem, v.chance.item())
	}
	v.event(trace.Event{Op: trace.CloseStmt, Statement: prepared})
}

func (v *view) search() {
	part := v.shop.items()/4 + 1
	from := v.upTo(v.shop.items())
	v.ask(search, from, from+part, "%"+v.word()+" "+v.word()[:2]+"%")
}

func (v *view) account() {
	customer := v.upTo(v.shop.customers())
	v.ask(byEmail, email(customer))
	v.ask(hisOrders, customer)
	v.ask(spent, customer)
}

func (v *view) report() {
	from := v.upTo(days)
	v.ask(revenue, from, from+30)
}

// event adds an event with a time shortly after the previous one.
func (v *view) event(e trace.Event) {
	if v.err != nil {
		return
	}
	e.At, e.Rows = v.e.At+200+v.Int64N(2000), -1
	v.e = e
	v.err = v.add(&v.e)
}

// ask adds a statement with its values as literals.
func (v *view) ask(template string, values ...any) {
	v.event(trace.Event{Op: trace.Query, Text: filled(template, values)})
}

// prepare adds the preparation of a statement and returns its number.
func (v *view) prepare(template string) uint32 {
	v.last++
	v.event(trace.Event{Op: trace.Prepare, Statement: v.last, Text: v.parameters(template)})
	return v.last
}

// execute adds the execution of a prepared statement.
func (v *view) execute(number uint32, template string, values ...any) {
	e := trace.Event{Op: trace.Execute, Statement: number}
	for _, value := range values {
		p, is := plain(value)
		e.Params, e.Types = append(e.Params, p), append(e.Types, is)
	}
	if e.Text = filled(template, values); v.shop.Dialect == lex.PostgreSQL {
		e.Text, e.Types = v.parameters(template), nil
	}
	v.event(e)
}

// parameters returns a template with the parameters of the dialect.
func (v *view) parameters(template string) []byte {
	if v.shop.Dialect == lex.MySQL {
		return []byte(template)
	}
	n := 0
	return replaced(template, func() []byte {
		n++
		return strconv.AppendInt([]byte("$"), int64(n), 10)
	})
}

// filled returns a template with literals. Texts contain no quotes.
func filled(template string, values []any) []byte {
	n := 0
	return replaced(template, func() []byte {
		n++
		b, is := plain(values[n-1])
		if is == trace.Text {
			return append(append([]byte("'"), b...), '\'')
		}
		return b
	})
}

func plain(value any) ([]byte, trace.Type) {
	if n, ok := value.(int); ok {
		return strconv.AppendInt(nil, int64(n), 10), trace.Int
	}
	return []byte(value.(string)), trace.Text
}

// replaced replaces each question mark.
func replaced(template string, by func() []byte) []byte {
	var b []byte
	for i, part := range bytes.Split([]byte(template), []byte("?")) {
		if i > 0 {
			b = append(b, by()...)
		}
		b = append(b, part...)
	}
	return b
}
