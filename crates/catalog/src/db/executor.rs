//! Queries that run alike inside and outside of a transaction.

use super::{Db, Row, Tx, Value};
use crate::Result;

pub(crate) trait Executor: Send {
    fn fetch(
        &mut self,
        sql: String,
        values: Vec<Value>,
    ) -> impl Future<Output = Result<Vec<Row>>> + Send;
}

impl Executor for &Db {
    async fn fetch(&mut self, sql: String, values: Vec<Value>) -> Result<Vec<Row>> {
        self.all(sql, values).await
    }
}

impl Executor for Tx {
    async fn fetch(&mut self, sql: String, values: Vec<Value>) -> Result<Vec<Row>> {
        self.all(sql, values).await
    }
}
