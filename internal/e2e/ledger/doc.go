// Package ledger is an executor for tests. It writes down every start and
// every end of a task, so that a test can count how often each one really ran,
// and it does as its payload says: work, fail, crash, hang, leave children.
package ledger
