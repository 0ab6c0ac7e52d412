import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/** Serves Iceberg's REST protocol: HOST PORT DATABASE WAREHOUSE. */
final class CatalogServer {
  public static void main(String[] arguments) throws Exception {
    var properties =
        Map.of(
            "catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri", "jdbc:sqlite:" + arguments[2],
            "jdbc.schema-version", "V1",
            "warehouse", arguments[3],
            "io-impl", "org.apache.iceberg.hadoop.HadoopFileIO");
    var catalog = CatalogUtil.buildIcebergCatalog("tests", properties, new Configuration());
    var context = new ServletContextHandler();
    context.addServlet(
        new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    var server = new Server(new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1])));
    server.setHandler(context);
    server.start();
    server.join();
  }
}
