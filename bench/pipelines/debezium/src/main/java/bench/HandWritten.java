package bench;

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.LocalDate;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.Struct;
import org.apache.kafka.connect.source.SourceRecord;

/**
 * Upserts in batches through JDBC, for this one table. A batch of the engine is one transaction; of a key that comes twice in it,
 * the last row counts. Tried, and slower: transactions of 500 rows, and batches that the driver does not rewrite. Tried, and no
 * faster: batches of 8,192 rows.
 */
final class HandWritten implements Sink {
  private static final String UPSERT =
      "insert into public.payments (payment_id, paid_on, amount) values (?, ?, ?)"
          + " on conflict (payment_id) do update set paid_on = excluded.paid_on, amount = excluded.amount";

  private final Connection store;
  private final PreparedStatement upsert;

  HandWritten(String url, String user, String password) throws SQLException {
    store = DriverManager.getConnection(url + "?reWriteBatchedInserts=true", user, password);
    store.setAutoCommit(false);
    upsert = store.prepareStatement(UPSERT);
  }

  @Override
  public int batchRows() {
    return 2_048;
  }

  @Override
  public void write(List<SourceRecord> records) throws SQLException {
    Map<String, Struct> rows = new LinkedHashMap<>();
    for (SourceRecord record : records) {
      Struct row = ((Struct) record.value()).getStruct("after");
      rows.put(row.getString("payment_id"), row);
    }
    for (Struct row : rows.values()) {
      upsert.setString(1, row.getString("payment_id"));
      upsert.setObject(2, LocalDate.ofEpochDay(row.getInt32("paid_on")));
      upsert.setBigDecimal(3, (BigDecimal) row.get("amount"));
      upsert.addBatch();
    }
    upsert.executeBatch();
    store.commit();
  }
}
