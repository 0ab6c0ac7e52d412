package io.headrace.kafkaconnect;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.MalformedURLException;
import java.net.URL;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.apache.kafka.common.config.ConfigException;

/** The plugins of a plugin path, each isolated from the others, and the bridge's own classes. */
public final class PluginPath {
  private static final ClassLoader BRIDGE = PluginPath.class.getClassLoader();

  private final List<Plugin> plugins;

  private PluginPath(List<Plugin> plugins) {
    this.plugins = plugins;
  }

  /**
   * Finds the plugins in folders. A folder with jars is a plugin; otherwise each folder and each
   * jar in it is one, as in Connect.
   */
  public static PluginPath of(List<Path> folders) {
    List<Plugin> found = new ArrayList<>();
    for (Path folder : folders) {
      if (!Files.isDirectory(folder)) {
        throw new ConfigException(
            "plugin.path: there is no folder %s: name one with the jars of the connector"
                .formatted(folder.toAbsolutePath()));
      }
      if (!jarsIn(folder).isEmpty()) {
        found.add(plugin(folder));
        continue;
      }
      for (Path one : listed(folder)) {
        if (Files.isDirectory(one)) {
          found.add(plugin(one));
        }
      }
    }
    return new PluginPath(List.copyOf(found));
  }

  /** The class loader that a class is loaded by. */
  public ClassLoader loaderOf(String className) {
    for (Plugin plugin : plugins) {
      if (plugin.has(className)) {
        return plugin;
      }
    }
    return BRIDGE;
  }

  /**
   * Makes an instance of a class.
   *
   * @param property the property that names the class, for errors
   */
  public <T> T make(String property, String className, Class<T> type) {
    if (className == null || className.isBlank()) {
      throw new ConfigException(
          "%s is missing: name a %s by its whole class name"
              .formatted(property, type.getSimpleName()));
    }
    String name = className.strip();
    ClassLoader loader = loaderOf(name);
    try {
      return Plugin.within(
          loader,
          () ->
              type.cast(Class.forName(name, true, loader).getDeclaredConstructor().newInstance()));
    } catch (ClassNotFoundException error) {
      throw new ConfigException(
          "%s: there is no class %s: write its whole name, and put its jars into a folder of plugin.path"
              .formatted(property, name));
    } catch (ClassCastException error) {
      throw new ConfigException("%s: %s is no %s".formatted(property, name, type.getSimpleName()));
    } catch (Exception | LinkageError error) {
      throw new ConfigException("%s: %s cannot be made: %s".formatted(property, name, error));
    }
  }

  private static Plugin plugin(Path folder) {
    List<URL> jars = new ArrayList<>();
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path file : (Iterable<Path>) files.sorted()::iterator) {
        if (isJar(file)) {
          jars.add(url(file));
        }
      }
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
    return new Plugin(folder.getFileName().toString(), jars, BRIDGE);
  }

  private static List<Path> jarsIn(Path folder) {
    return listed(folder).stream().filter(PluginPath::isJar).toList();
  }

  private static List<Path> listed(Path folder) {
    try (Stream<Path> files = Files.list(folder)) {
      return files.sorted().toList();
    } catch (IOException error) {
      throw new UncheckedIOException(error);
    }
  }

  private static boolean isJar(Path file) {
    return file.getFileName().toString().endsWith(".jar") && Files.isRegularFile(file);
  }

  private static URL url(Path jar) {
    try {
      return jar.toUri().toURL();
    } catch (MalformedURLException error) {
      throw new IllegalStateException(error);
    }
  }
}
