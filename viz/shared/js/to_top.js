let shown;
export default function ({ data }) {
  if (shown !== undefined && shown !== data.place) {
    document.querySelector('[data-testid="stMain"]')?.scrollTo({ top: 0 });
  }
  shown = data.place;
}
