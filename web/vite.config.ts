import { createHash } from "node:crypto";
import { defineConfig, type Plugin } from "vite";

const sha256 = (text: string) => `'sha256-${createHash("sha256").update(text, "utf8").digest("base64")}'`;

/**
 * Puts script and style into the page and forbids everything else: no network, no other script or style, no form, and
 * (where the browser knows trusted types) no markup made from text. The hashes are those of the text as it stands in the
 * page, so nothing may edit the page after this but the program that fills in the data blocks.
 */
function oneFile(): Plugin {
  return {
    name: "one-file",
    apply: "build",
    enforce: "post",
    generateBundle(_, bundle) {
      const page = Object.values(bundle).find((f) => f.fileName === "index.html");
      if (page?.type !== "asset") throw new Error("the build has no index.html");
      let html = String(page.source);
      let scripts = "";
      const hashes: { script: string[]; style: string[] } = { script: [], style: [] };
      for (const file of Object.values(bundle)) {
        if (file === page) continue;
        if (file.type === "chunk") {
          // A closing tag or comment inside a string would end the element.
          const code = file.code.replaceAll(/<\/(script)/gi, "<\\/$1").replaceAll("<!--", "<\\!--").trim();
          html = html.replace(/\s*<script type="module"[^>]*><\/script>/, "");
          scripts += `<script type="module">${code}</script>\n`;
          hashes.script.push(sha256(code));
        } else if (file.fileName.endsWith(".css")) {
          const css = String(file.source).trim();
          // A function, because a replacement text would obey its dollar signs.
          html = html.replace(/<link rel="stylesheet"[^>]*>/, () => `<style>${css}</style>`);
          hashes.style.push(sha256(css));
        } else {
          throw new Error(`${file.fileName} cannot be put into the page`);
        }
        delete bundle[file.fileName];
      }
      const policy = [
        "default-src 'none'",
        `script-src ${hashes.script.join(" ")}`,
        `style-src ${hashes.style.join(" ")}`,
        "img-src data: blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
      ].join("; ");
      html = html
        .replace('<meta charset="utf-8" />', (m) => `${m}\n    <meta http-equiv="Content-Security-Policy" content="${policy}" />`)
        .replace("</body>", () => `${scripts}</body>`);
      if (/<(script|link|img)[^>]+(src|href)=/.test(html.replace(/<script type="module">[\s\S]*?<\/script>/g, ""))) {
        throw new Error("the page still refers to a file");
      }
      page.source = html;
      page.fileName = "page.html";
    },
  };
}

export default defineConfig({
  plugins: [oneFile()],
  build: {
    outDir: "../internal/show/report/page/dist",
    emptyOutDir: false,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
  },
});
