// Package rules mends what the engine's analyzer makes of statements, where that is wrong.
//
// The engine's rules stay as they are. Install wraps some of them: what a rule takes or makes is
// looked at, and put right. Each file says what is wrong, and why it is put right there. A wrapped
// rule runs wherever the engine runs the rule: also for subqueries, views and triggers.
package rules
