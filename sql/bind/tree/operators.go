package tree

import "github.com/pingcap/tidb/pkg/parser/opcode"

// BinaryOps are the names of the functions that operators between two operands stand for.
var BinaryOps = map[opcode.Op]string{
	opcode.LogicAnd: "and", opcode.LogicOr: "or", opcode.LogicXor: "xor", opcode.LeftShift: "<<", opcode.RightShift: ">>",
	opcode.GE: ">=", opcode.LE: "<=", opcode.EQ: "=", opcode.NE: "<>", opcode.LT: "<", opcode.GT: ">", opcode.NullEQ: "<=>",
	opcode.Plus: "+", opcode.Minus: "-", opcode.Mul: "*", opcode.Div: "/", opcode.Mod: "%", opcode.IntDiv: "div",
	opcode.And: "&", opcode.Or: "|", opcode.Xor: "^",
}
