package shop

import (
	"bufio"
	"fmt"
	"iter"
	"strings"
)

// table is a table of the shop. A row is the list of its literals.
type table struct {
	name, columns string
	rows          func(Shop, *chance) iter.Seq[string]
}

var tables = []table{
	{"category", "id INT PRIMARY KEY, name VARCHAR(40) NOT NULL", Shop.categoryRows},
	{"item", "id INT PRIMARY KEY, category INT NOT NULL, name VARCHAR(80) NOT NULL, price INT NOT NULL, " +
		"stock INT NOT NULL, added INT NOT NULL, description TEXT NOT NULL", Shop.itemRows},
	{"customer", "id INT PRIMARY KEY, email VARCHAR(80) NOT NULL, name VARCHAR(80) NOT NULL, city VARCHAR(40) NOT NULL",
		Shop.customerRows},
	{"orders", "id INT PRIMARY KEY, customer INT NOT NULL, placed INT NOT NULL", Shop.orderRows},
	{"order_line", "orders INT NOT NULL, number INT NOT NULL, item INT NOT NULL, quantity INT NOT NULL, " +
		"price INT NOT NULL, PRIMARY KEY (orders, number)", Shop.lineRows},
}

var indexes = []string{
	"item_category ON item (category, price, id)",
	"item_added ON item (added, id)",
	"customer_email ON customer (email)",
	"orders_customer ON orders (customer, id)",
	"orders_placed ON orders (placed)",
	"order_line_item ON order_line (item, orders)",
}

// rowsOf returns the rows with the IDs 1 to n.
func rowsOf(n int, do func(id int) string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for id := 1; id <= n; id++ {
			if !yield(do(id)) {
				return
			}
		}
	}
}

func (s Shop) categoryRows(c *chance) iter.Seq[string] {
	return rowsOf(s.categories(), func(id int) string { return fmt.Sprintf("%d, '%s %d'", id, c.words(2), id) })
}

func (s Shop) itemRows(c *chance) iter.Seq[string] {
	return rowsOf(s.items(), func(id int) string {
		return fmt.Sprintf("%d, %d, '%s', %d, %d, %d, '%s'", id, c.upTo(s.categories()), c.words(3), c.upTo(100_000),
			c.IntN(500), c.upTo(days), c.words(20+c.IntN(c.upTo(400))))
	})
}

func (s Shop) customerRows(c *chance) iter.Seq[string] {
	return rowsOf(s.customers(), func(id int) string {
		return fmt.Sprintf("%d, '%s', '%s', '%s'", id, email(id), c.words(2), c.word())
	})
}

func email(customer int) string { return fmt.Sprintf("customer%d@shop.example", customer) }

func (s Shop) orderRows(c *chance) iter.Seq[string] {
	return rowsOf(s.orders(), func(id int) string {
		return fmt.Sprintf("%d, %d, %d", id, c.upTo(s.customers()), 1+id*days/(s.orders()+1))
	})
}

func (s Shop) lineRows(c *chance) iter.Seq[string] {
	return func(yield func(string) bool) {
		for order := range s.orders() {
			for number := range c.upTo(6) {
				if !yield(fmt.Sprintf("%d, %d, %d, %d, %d", order+1, number+1, c.item(), c.upTo(4), c.upTo(100_000))) {
					return
				}
			}
		}
	}
}

// longest is the approximate size of an INSERT in bytes.
const longest = 32 << 10

// fill writes INSERT statements with many rows each.
func (s Shop) fill(w *bufio.Writer, table string, rows iter.Seq[string]) {
	var values []string
	size := 0
	flush := func() {
		if len(values) > 0 {
			fmt.Fprintf(w, "INSERT INTO %s VALUES\n(%s);\n", table, strings.Join(values, "),\n("))
		}
		values, size = values[:0], 0
	}
	w.WriteString("BEGIN;\n")
	for row := range rows {
		values, size = append(values, row), size+len(row)
		if size >= longest {
			flush()
		}
	}
	flush()
	w.WriteString("COMMIT;\n")
}
