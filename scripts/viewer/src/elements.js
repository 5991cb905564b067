// Elements of the page: by id, made anew, and where errors are said.
import { CubeError } from "./cube.js";

export const $ = (id) => document.getElementById(id);

export function made(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}

export function say(error) {
  $("message").hidden = false;
  $("first")?.remove();
  $("message").textContent = error instanceof CubeError ? error.message : `This page failed: ${error?.message ?? error}`;
  document.documentElement.dataset.state = "failed";
}
