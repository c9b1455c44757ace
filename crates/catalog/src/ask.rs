//! Questions that are asked alike beside a transaction and inside one.

use crate::Result;
use crate::db::{Db, Row, Tx, Value};

pub(crate) trait Ask: Send {
    fn ask(
        &mut self,
        sql: String,
        values: Vec<Value>,
    ) -> impl Future<Output = Result<Vec<Row>>> + Send;
}

impl Ask for &Db {
    async fn ask(&mut self, sql: String, values: Vec<Value>) -> Result<Vec<Row>> {
        self.all(sql, values).await
    }
}

impl Ask for Tx {
    async fn ask(&mut self, sql: String, values: Vec<Value>) -> Result<Vec<Row>> {
        self.all(sql, values).await
    }
}
