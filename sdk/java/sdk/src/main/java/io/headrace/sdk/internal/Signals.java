package io.headrace.sdk.internal;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Handles SIGTERM and SIGINT: the first one stops the connector, the second one ends the process.
 * SIGHUP does not end it: the files of certificates are read again with each connection.
 *
 * <p>A shutdown hook could do this only in part: the process would exit with 143 whatever happens,
 * and loggers close while it runs. So this uses {@code sun.misc.Signal}, which every OpenJDK has,
 * by reflection, because the compiler warns of it. Where it is missing, a hook is used.
 */
public final class Signals implements AutoCloseable {
  private static final Logger LOG = System.getLogger("io.headrace.sdk");
  private static final Map<String, Integer> NUMBERS = Map.of("TERM", 15, "INT", 2);

  private final Map<Object, Object> before = new LinkedHashMap<>();
  private final Thread hook;
  private Method handle;

  private Signals(Thread hook) {
    this.hook = hook;
  }

  /** Handles the signals until this is closed. */
  public static Signals handle(Runnable stop) {
    Signals signals = new Signals(new Thread(stop, "headrace stop"));
    AtomicBoolean received = new AtomicBoolean();
    try {
      for (String name : NUMBERS.keySet()) {
        signals.set(name, () -> received(name, received, stop));
      }
      signals.set("HUP", () -> LOG.log(Level.INFO, "SIGHUP: the connector runs on"));
    } catch (ReflectiveOperationException | RuntimeException error) {
      LOG.log(Level.DEBUG, "signals are handled by a shutdown hook", error);
      Runtime.getRuntime().addShutdownHook(signals.hook);
    }
    return signals;
  }

  @Override
  public void close() {
    try {
      for (Map.Entry<Object, Object> entry : before.entrySet()) {
        handle.invoke(null, entry.getKey(), entry.getValue());
      }
      Runtime.getRuntime().removeShutdownHook(hook);
    } catch (ReflectiveOperationException | IllegalStateException error) {
      LOG.log(Level.DEBUG, "the handlers of signals stay as they are", error);
    }
  }

  private static void received(String name, AtomicBoolean received, Runnable stop) {
    if (received.getAndSet(true)) {
      Runtime.getRuntime().halt(128 + NUMBERS.get(name));
    }
    LOG.log(Level.INFO, "SIG{0}: stopping", name);
    stop.run();
  }

  private void set(String name, Runnable action) throws ReflectiveOperationException {
    Class<?> signalClass = Class.forName("sun.misc.Signal");
    Class<?> handlerClass = Class.forName("sun.misc.SignalHandler");
    handle = signalClass.getMethod("handle", signalClass, handlerClass);
    InvocationHandler invocation =
        (proxy, method, arguments) ->
            switch (method.getName()) {
              case "handle" -> {
                action.run();
                yield null;
              }
              case "hashCode" -> System.identityHashCode(proxy);
              case "equals" -> proxy == arguments[0];
              default -> "the handler of SIG" + name;
            };
    Object handler =
        Proxy.newProxyInstance(
            Signals.class.getClassLoader(), new Class<?>[] {handlerClass}, invocation);
    Object signal = signalClass.getConstructor(String.class).newInstance(name);
    before.put(signal, handle.invoke(null, signal, handler));
  }
}
