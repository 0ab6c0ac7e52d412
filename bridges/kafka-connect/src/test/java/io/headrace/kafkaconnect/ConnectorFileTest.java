package io.headrace.kafkaconnect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.apache.kafka.common.config.ConfigException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

final class ConnectorFileTest {
  private static final PluginPath BRIDGE = PluginPath.of(List.of());

  @TempDir private Path folder;

  private ConnectorFile file(String... lines) throws Exception {
    Path path = folder.resolve("connector.properties");
    Files.write(path, List.of(lines));
    return ConnectorFile.read(path, BRIDGE);
  }

  @Test
  void secretsComeFromFilesAndTheEnvironment() throws Exception {
    Path secrets = Files.write(folder.resolve("secrets"), List.of("password=p:a$s"));
    String name =
        System.getenv().keySet().stream().filter(key -> key.equals("PATH")).findFirst().get();
    ConnectorFile read =
        file("a=${file:" + secrets + ":password}", "b=x-${env:" + name + "}", "c=${TOPIC} stays");
    assertEquals("p:a$s", read.get("a"));
    assertEquals("x-" + System.getenv(name), read.get("b"));
    assertEquals("${TOPIC} stays", read.get("c"));
  }

  @Test
  void aSecretThatDoesNotExistIsNamedWithItsProperty() {
    Exception error =
        assertThrows(ConfigException.class, () -> file("database.password=${env:NOT_SET_AT_ALL}"));
    assertTrue(error.getMessage().contains("database.password"), error.getMessage());
    assertTrue(error.getMessage().contains("NOT_SET_AT_ALL"), error.getMessage());
  }

  @Test
  void listsAndNumbersAreChecked() throws Exception {
    ConnectorFile read = file("transforms= a , b", "tasks.max=0", "transforms.a.type=T");
    assertEquals(List.of("a", "b"), read.list("transforms"));
    assertEquals(List.of(), read.list("predicates"));
    assertEquals("T", read.below("transforms.a.").get("type"));
    assertThrows(ConfigException.class, read::mostTasks);
    Exception error = assertThrows(ConfigException.class, read::connectorClass);
    assertTrue(error.getMessage().contains("connector.class"), error.getMessage());
  }

  @Test
  void aClassThatCannotBeLoadedIsNamedWithItsPropertyAndTheRemedy() {
    Exception error =
        assertThrows(
            ConfigException.class,
            () -> BRIDGE.make("value.converter", "com.example.Absent", Object.class));
    assertTrue(error.getMessage().contains("value.converter"), error.getMessage());
    assertTrue(error.getMessage().contains("plugin.path"), error.getMessage());
    Path nowhere = folder.resolve("nowhere");
    assertThrows(ConfigException.class, () -> PluginPath.of(List.of(nowhere)));
  }

  @Test
  void onlyTheInterfaceIsSharedWithPlugins() {
    assertTrue(Plugin.isShared("org.apache.kafka.connect.source.SourceTask"));
    assertTrue(Plugin.isShared("org.apache.kafka.common.config.ConfigDef"));
    assertTrue(Plugin.isShared("org.apache.kafka.connect.transforms.Transformation"));
    assertTrue(Plugin.isShared("org.slf4j.Logger"));
    for (String own :
        List.of(
            "org.apache.kafka.connect.transforms.InsertField",
            "org.apache.kafka.connect.file.FileStreamSourceTask",
            "com.google.protobuf.Message",
            "com.fasterxml.jackson.databind.ObjectMapper")) {
      assertTrue(!Plugin.isShared(own), own);
    }
  }
}
