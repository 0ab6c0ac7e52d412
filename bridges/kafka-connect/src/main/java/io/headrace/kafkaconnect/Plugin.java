package io.headrace.kafkaconnect;

import java.io.IOException;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.concurrent.Callable;

/**
 * The classes of one plugin. Its own jars come first, resources too, so that its versions of
 * Jackson, protobuf or Guava do not meet the bridge's. Only what both sides talk through is shared:
 * the interface of Connect, Kafka's clients and SLF4J.
 */
public final class Plugin extends URLClassLoader {
  private static final String SERVICES = "META-INF/services/";

  private static final List<String> SHARED = List.of("org.apache.kafka.", "org.slf4j.");

  /** Packages of Kafka that are plugins themselves, in whatever version a plugin brings. */
  private static final List<String> OWN =
      List.of(
          "org.apache.kafka.connect.converters.",
          "org.apache.kafka.connect.file.",
          "org.apache.kafka.connect.json.",
          "org.apache.kafka.connect.mirror.",
          "org.apache.kafka.connect.runtime.",
          "org.apache.kafka.connect.transforms.");

  private static final List<String> INTERFACES =
      List.of(
          "org.apache.kafka.connect.transforms.Transformation",
          "org.apache.kafka.connect.transforms.predicates.Predicate");

  static {
    registerAsParallelCapable();
  }

  Plugin(String name, List<URL> jars, ClassLoader bridge) {
    super(name, jars.toArray(URL[]::new), bridge);
  }

  @Override
  protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
    synchronized (getClassLoadingLock(name)) {
      Class<?> found = findLoadedClass(name);
      if (found == null && !name.startsWith("java.") && !isShared(name)) {
        try {
          found = findClass(name);
        } catch (ClassNotFoundException absent) {
          // The plugin lacks the class; the bridge may contain it.
        }
      }
      return found != null ? found : super.loadClass(name, resolve);
    }
  }

  @Override
  public URL getResource(String name) {
    URL own = findResource(name);
    return own != null ? own : super.getResource(name);
  }

  @Override
  public Enumeration<URL> getResources(String name) throws IOException {
    List<URL> found = new ArrayList<>(Collections.list(findResources(name)));
    if (!isOwnService(name)) {
      found.addAll(Collections.list(getParent().getResources(name)));
    }
    return Collections.enumeration(found);
  }

  /**
   * Whether a resource lists the providers of an interface of the plugin's own: the bridge's
   * providers implement the bridge's version of it, and a service loader would fail at them.
   */
  private boolean isOwnService(String name) {
    if (!name.startsWith(SERVICES)) {
      return false;
    }
    String service = name.substring(SERVICES.length());
    return has(service) && !isShared(service);
  }

  /** Whether a class has its own jar here, rather than in the bridge. */
  boolean has(String className) {
    return findResource(className.replace('.', '/') + ".class") != null;
  }

  static boolean isShared(String name) {
    boolean own = OWN.stream().anyMatch(name::startsWith) && !INTERFACES.contains(name);
    return SHARED.stream().anyMatch(name::startsWith) && !own;
  }

  /**
   * Calls what belongs to a loader with it as the context class loader, by which many libraries
   * look for services, also in constructors.
   */
  public static <T> T within(ClassLoader loader, Callable<T> call) throws Exception {
    Thread thread = Thread.currentThread();
    ClassLoader before = thread.getContextClassLoader();
    thread.setContextClassLoader(loader);
    try {
      return call.call();
    } finally {
      thread.setContextClassLoader(before);
    }
  }
}
