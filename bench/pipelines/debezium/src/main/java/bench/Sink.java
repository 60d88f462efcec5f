package bench;

import java.util.List;
import org.apache.kafka.connect.source.SourceRecord;

/** What stands behind Debezium's engine. */
interface Sink {
  /** Rows that the engine hands over at a time, at most. */
  int batchRows();

  /** Returns when all rows are committed in the store; throws when one is not. */
  void write(List<SourceRecord> rows) throws Exception;
}
