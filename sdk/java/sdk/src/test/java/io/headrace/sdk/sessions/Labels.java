package io.headrace.sdk.sessions;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.util.HashMap;
import java.util.Map;

/** The stream ids for which the labels in a script stand. */
final class Labels {
  private static final String ID = "stream_id";

  private final Map<Integer, Integer> ids = new HashMap<>();

  /** Whether a message has the fields that are wanted. A new stream gives its label a meaning. */
  boolean fit(String kind, JsonElement want, JsonElement got) {
    if (kind.equals("open_stream")) {
      JsonObject opened = got.getAsJsonObject();
      if (want.getAsJsonObject().get("stream").equals(opened.get("stream"))) {
        ids.put(want.getAsJsonObject().get(ID).getAsInt(), opened.get(ID).getAsInt());
      }
    }
    return has(got, resolved(want));
  }

  /** The same with ids in place of labels. */
  JsonElement resolved(JsonElement script) {
    if (script.isJsonArray()) {
      JsonArray all = new JsonArray();
      script.getAsJsonArray().forEach(entry -> all.add(resolved(entry)));
      return all;
    }
    if (!script.isJsonObject()) {
      return script;
    }
    JsonObject all = new JsonObject();
    script
        .getAsJsonObject()
        .asMap()
        .forEach((name, value) -> all.add(name, name.equals(ID) ? id(value) : resolved(value)));
    return all;
  }

  private JsonElement id(JsonElement label) {
    return new JsonPrimitive(ids.getOrDefault(label.getAsInt(), 0));
  }

  private static boolean has(JsonElement got, JsonElement want) {
    if (want.isJsonObject()) {
      return got != null
          && got.isJsonObject()
          && want.getAsJsonObject().asMap().entrySet().stream()
              .allMatch(field -> has(got.getAsJsonObject().get(field.getKey()), field.getValue()));
    }
    if (!want.isJsonArray()) {
      return want.equals(got);
    }
    if (got == null
        || !got.isJsonArray()
        || got.getAsJsonArray().size() != want.getAsJsonArray().size()) {
      return false;
    }
    for (int at = 0; at < want.getAsJsonArray().size(); at++) {
      if (!has(got.getAsJsonArray().get(at), want.getAsJsonArray().get(at))) {
        return false;
      }
    }
    return true;
  }
}
